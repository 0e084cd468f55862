import io.debezium.data.Envelope;
import io.debezium.time.MicroTimestamp;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.eclipse.tahu.message.SparkplugBPayloadEncoder;
import org.eclipse.tahu.message.model.Metric.MetricBuilder;
import org.eclipse.tahu.message.model.MetricDataType;
import org.eclipse.tahu.message.model.SparkplugBPayload;
import org.eclipse.tahu.message.model.SparkplugBPayload.SparkplugBPayloadBuilder;
import org.eclipse.tahu.util.PayloadUtil;

/** Writes topics of shapes whose encoders are in Java, in the form of main.go. */
public class Shapes {
  static final long START = Instant.parse("2026-03-01T00:00:00Z").toEpochMilli();
  static Random random;

  public static void main(String[] args) throws Exception {
    debezium("debezium", false);
    debezium("debezium-schema", true);
    sparkplug("sparkplug", false);
    sparkplug("sparkplug-json", true);
  }

  /** A value that moves about a level of its series. */
  static double level(int series, int i) {
    return Math.round(1000 * (20 * (series + 1) + 3 * Math.sin(i / 9.0) + 0.4 * random.nextGaussian())) / 1000.0;
  }

  static class Topic implements AutoCloseable {
    final OutputStream out;

    Topic(String name) throws Exception {
      random = new Random(39);
      out = new GZIPOutputStream(new FileOutputStream(name + ".jsonl.gz"));
    }

    /** Adds a record; value is null for a tombstone. Each sample is a JSON object. */
    void add(String key, long ms, byte[] value, List<String> samples) throws Exception {
      String text = value == null ? "null" : '"' + Base64.getEncoder().encodeToString(value) + '"';
      out.write(String.format("{\"key\":%s,\"time\":%d,\"value\":%s,\"want\":[%s]}\n", key, ms, text, String.join(",", samples))
          .getBytes(StandardCharsets.UTF_8));
    }

    public void close() throws Exception {
      out.close();
    }
  }

  static String sample(String key, long micros, String... values) {
    return String.format("{\"key\":\"%s\",\"time\":%d,\"values\":[%s]}", key.replace("\\", "\\\\"), micros, String.join(",", values));
  }

  static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** Rows of a table of readings by change data capture; some are corrected, and some deleted, each with its tombstone. */
  static void debezium(String name, boolean schemas) throws Exception {
    Schema row = SchemaBuilder.struct().name("plant.public.readings.Value").optional().field("id", Schema.INT64_SCHEMA)
        .field("machine", Schema.STRING_SCHEMA).field("taken_at", MicroTimestamp.schema())
        .field("temperature", Schema.OPTIONAL_FLOAT64_SCHEMA).field("cost", Decimal.builder(2).optional().build()).build();
    Schema source = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source").field("version", Schema.STRING_SCHEMA)
        .field("connector", Schema.STRING_SCHEMA).field("name", Schema.STRING_SCHEMA).field("ts_ms", Schema.INT64_SCHEMA)
        .field("db", Schema.STRING_SCHEMA).field("schema", Schema.STRING_SCHEMA).field("table", Schema.STRING_SCHEMA)
        .field("lsn", Schema.INT64_SCHEMA).build();
    Envelope envelope = Envelope.defineSchema().withName("plant.public.readings.Envelope").withRecord(row).withSource(source).build();
    try (JsonConverter converter = new JsonConverter(); Topic topic = new Topic(name)) {
      converter.configure(Map.of("schemas.enable", schemas, "converter.type", "value"), false);
      for (int i = 0; i < 400; i++) {
        long at = START + 1000L * i;
        String machine = "press-" + (i % 4 + 1);
        double temperature = level(i % 4, i / 4);
        BigDecimal cost = BigDecimal.valueOf(level(i % 4, i / 4 + 30) * 17).setScale(2, RoundingMode.HALF_UP);
        Struct after = new Struct(row).put("id", 4711L + i).put("machine", machine).put("taken_at", 1000 * at)
            .put("temperature", temperature).put("cost", cost);
        Struct from = new Struct(source).put("version", "3.4.1.Final").put("connector", "postgresql").put("name", "plant")
            .put("ts_ms", at + 20).put("db", "mes").put("schema", "public").put("table", "readings").put("lsn", 24000000L + 312 * i);
        Instant now = Instant.ofEpochMilli(at + 35);
        String key = quoted("{\"id\":" + (4711 + i) + "}");
        Struct change = i % 9 == 4 ? envelope.update(null, after, from, now) : envelope.create(after, from, now);
        topic.add(key, at + 60, converter.fromConnectData("t", envelope.schema(), change),
            List.of(sample(machine, 1000 * at, Double.toString(temperature), cost.toPlainString())));
        if (i % 50 == 30) {
          topic.add(key, at + 61, converter.fromConnectData("t", envelope.schema(), envelope.delete(after, from, now)), List.of());
          topic.add(key, at + 62, null, List.of());
        }
      }
    }
  }

  /** Data of the devices of an edge node, as a bridge from MQTT writes them: the record's key is the topic. */
  static void sparkplug(String name, boolean json) throws Exception {
    try (Topic topic = new Topic(name)) {
      for (int i = 0; i < 240; i++) {
        long at = START + 500L * i;
        int device = i % 2;
        String key = "spBv1.0/oslo/DDATA/edge-1/plc-" + (device + 1);
        SparkplugBPayload payload = new SparkplugBPayloadBuilder((long) (i % 256)).setTimestamp(new Date(at)).createPayload();
        List<String> samples = new ArrayList<>();
        String series = key.replace("/", "\\/") + "/";
        for (int k = 0; k < 2; k++) {
          double v = level(2 * device + k, i / 2);
          String metric = k == 0 ? "Spindle/Temp" : "Feed/Pressure";
          payload.addMetric(new MetricBuilder(metric, MetricDataType.Double, v).timestamp(new Date(at - 3)).createMetric());
          samples.add(sample(series + metric.replace("/", "\\/"), 1000 * (at - 3), Double.toString(v)));
        }
        boolean running = i % 40 < 35;
        payload.addMetric(new MetricBuilder("Running", MetricDataType.Boolean, running).timestamp(new Date(at - 3)).createMetric());
        // In Protobuf a Boolean has a field of its own.
        samples.add(sample(series + "Running", 1000 * (at - 3), !json ? "null" : running ? "1" : "0"));
        if (i % 10 == 0) {
          payload.addMetric(new MetricBuilder("State", MetricDataType.String, "RUN").timestamp(new Date(at - 3)).createMetric());
          samples.add(sample(series + "State", 1000 * (at - 3), "null"));
        }
        byte[] value = json ? PayloadUtil.toJsonString(payload).getBytes(StandardCharsets.UTF_8)
            : new SparkplugBPayloadEncoder().getBytes(payload, false);
        topic.add(quoted(key), at + 30, value, samples);
      }
    }
  }
}
