import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * What one would write on Kafka Streams: read Avro in Confluent framing, keep a mean per key in an
 * in-memory store with a changelog, write an Avro score. Framework defaults throughout.
 *
 * <p>Arguments: brokers, application id, threads, input topic, output topic, eos or alo, compression.
 * Prints the number of records processed so far, five times a second, until it is killed.
 */
public class Peer {
  static final Schema READING =
      new Schema.Parser()
          .parse(
              "{\"type\":\"record\",\"name\":\"R\",\"fields\":["
                  + "{\"name\":\"sensor\",\"type\":\"string\"},{\"name\":\"ts\",\"type\":\"long\"},"
                  + "{\"name\":\"value\",\"type\":\"double\"},{\"name\":\"unit\",\"type\":\"string\"},"
                  + "{\"name\":\"seq\",\"type\":\"long\"}]}");
  static final Schema SCORE =
      new Schema.Parser()
          .parse(
              "{\"type\":\"record\",\"name\":\"Score\",\"fields\":["
                  + "{\"name\":\"sensor\",\"type\":\"string\"},{\"name\":\"ts\",\"type\":\"long\"},"
                  + "{\"name\":\"score\",\"type\":\"double\"},{\"name\":\"offset\",\"type\":\"long\"}]}");
  static final byte[] FRAME = {0, 0, 0, 0, 2};
  static final LongAdder done = new LongAdder();

  static class Scorer implements Processor<byte[], byte[], byte[], byte[]> {
    final GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(READING);
    final GenericDatumWriter<GenericRecord> writer = new GenericDatumWriter<>(SCORE);
    ProcessorContext<byte[], byte[]> context;
    KeyValueStore<byte[], byte[]> means;
    BinaryDecoder decoder;
    BinaryEncoder encoder;
    GenericRecord reading;

    @Override
    public void init(ProcessorContext<byte[], byte[]> c) {
      context = c;
      means = c.getStateStore("mean");
    }

    @Override
    public void process(Record<byte[], byte[]> in) {
      try {
        byte[] value = in.value();
        decoder = DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, decoder);
        reading = reader.read(reading, decoder);
        double v = (Double) reading.get("value");
        byte[] old = means.get(in.key());
        double mean = old == null ? 0 : ByteBuffer.wrap(old).getDouble();
        mean += 0.05 * (v - mean);
        means.put(in.key(), ByteBuffer.allocate(8).putDouble(mean).array());
        GenericRecord score = new GenericData.Record(SCORE);
        score.put("sensor", reading.get("sensor"));
        score.put("ts", reading.get("ts"));
        score.put("score", Math.abs(v - mean));
        score.put("offset", context.recordMetadata().get().offset());
        ByteArrayOutputStream out = new ByteArrayOutputStream(48);
        out.write(FRAME);
        encoder = EncoderFactory.get().binaryEncoder(out, encoder);
        writer.write(score, encoder);
        encoder.flush();
        context.forward(in.withValue(out.toByteArray()));
        done.increment();
      } catch (java.io.IOException e) {
        throw new java.io.UncheckedIOException(e);
      }
    }
  }

  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    p.put("bootstrap.servers", args[0]);
    p.put("application.id", args[1]);
    p.put("num.stream.threads", args[2]);
    p.put("processing.guarantee", args[5].equals("eos") ? "exactly_once_v2" : "at_least_once");
    p.put("auto.offset.reset", "earliest");
    p.put("state.dir", "state-" + args[1]);
    p.put("producer.compression.type", args[6]);
    StreamsBuilder b = new StreamsBuilder();
    b.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("mean"), Serdes.ByteArray(), Serdes.ByteArray())
            .withLoggingEnabled(Map.of()));
    b.stream(args[3], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .process(Scorer::new, "mean")
        .to(args[4], Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
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
