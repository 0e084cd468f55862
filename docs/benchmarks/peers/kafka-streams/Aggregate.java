import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The mean of each series and minute, once the minute is over: windowed aggregate, suppressed until the window
 * closes. JSON in and out, framework defaults throughout (the window store is RocksDB, with a changelog).
 *
 * <p>Arguments: brokers, application id, threads, input topic, output topic, grace in ms, compression. Prints the
 * number of records processed so far, five times a second, until it is killed.
 */
public class Aggregate {
  record Reading(long ts, double value) {}

  record Sum(double sum, long count) {}

  static final LongAdder done = new LongAdder();
  static final JsonFactory JSON = new JsonFactory();

  /** Reads the two fields that are needed, without building a tree. */
  static Reading parse(byte[] b) {
    try (JsonParser p = JSON.createParser(b)) {
      long ts = 0;
      double value = 0;
      p.nextToken();
      while (p.nextToken() == JsonToken.FIELD_NAME) {
        String name = p.currentName();
        p.nextToken();
        if (name.equals("ts")) ts = p.getLongValue();
        else if (name.equals("value")) value = p.getDoubleValue();
      }
      return new Reading(ts, value);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static class EventTime implements TimestampExtractor {
    @Override
    public long extract(ConsumerRecord<Object, Object> r, long partitionTime) {
      return ((Reading) r.value()).ts;
    }
  }

  static <T> Serde<T> serde(Serializer<T> s, Deserializer<T> d) {
    return Serdes.serdeFrom(s, d);
  }

  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", args[0]);
    p.put("application.id", args[1]);
    p.put("num.stream.threads", args[2]);
    p.put("processing.guarantee", "exactly_once_v2");
    p.put("auto.offset.reset", "earliest");
    p.put("state.dir", "state-" + args[1]);
    p.put("producer.compression.type", args[6]);
    Serde<Reading> readings = serde((t, r) -> null, (t, b) -> parse(b));
    Serde<Sum> sums =
        serde(
            (t, s) -> s == null ? null : ByteBuffer.allocate(16).putDouble(s.sum).putLong(s.count).array(),
            (t, b) -> {
              if (b == null) return null;
              ByteBuffer in = ByteBuffer.wrap(b);
              return new Sum(in.getDouble(), in.getLong());
            });
    StreamsBuilder b = new StreamsBuilder();
    b.stream(args[3], Consumed.with(Serdes.Bytes(), readings).withTimestampExtractor(new EventTime()))
        .peek((k, r) -> done.increment())
        .groupByKey(Grouped.with(Serdes.Bytes(), readings))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMillis(Long.parseLong(args[5]))))
        .aggregate(
            () -> new Sum(0, 0),
            (k, r, s) -> new Sum(s.sum + r.value, s.count + 1),
            Materialized.<Bytes, Sum, WindowStore<Bytes, byte[]>>as("minutes")
                .withKeySerde(Serdes.Bytes())
                .withValueSerde(sums))
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
        .toStream()
        .map(
            (k, s) ->
                KeyValue.pair(
                    k.key(),
                    ("{\"start\":" + k.window().start() + ",\"mean\":" + s.sum / s.count + "}")
                        .getBytes(StandardCharsets.UTF_8)))
        .to(args[4], Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
    KafkaStreams streams = new KafkaStreams(b.build(), p);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
    streams.start();
    while (true) {
      Thread.sleep(200);
      System.out.println(done.sum());
      System.out.flush();
    }
  }
}
