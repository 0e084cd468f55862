import com.amazonaws.services.schemaregistry.common.configs.GlueSchemaRegistryConfiguration;
import com.amazonaws.services.schemaregistry.deserializers.protobuf.ProtobufSchemaParser;
import com.amazonaws.services.schemaregistry.serializers.SerializationDataEncoder;
import com.amazonaws.services.schemaregistry.serializers.avro.AvroSerializer;
import com.amazonaws.services.schemaregistry.serializers.json.JsonDataWithSchema;
import com.amazonaws.services.schemaregistry.serializers.json.JsonSerializer;
import com.amazonaws.services.schemaregistry.serializers.protobuf.ProtobufSerializer;
import com.google.protobuf.Descriptors;
import com.google.protobuf.DynamicMessage;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;

/** Writes records.json with AWS's own serializers; see generate.sh. */
public class Glue {
    static final StringBuilder out = new StringBuilder("[\n");

    static String quote(String s) { return "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\""; }

    static void add(String format, String schema, byte[] body, UUID id, String message, String key, long time, double value) {
        for (String compression : List.of("NONE", "ZLIB")) {
            GlueSchemaRegistryConfiguration c = new GlueSchemaRegistryConfiguration(Map.of("region", "eu-west-1", "compression", compression));
            byte[] record = new SerializationDataEncoder(c).write(body, id);
            if (out.length() > 2) out.append(",\n");
            out.append(String.format(Locale.ROOT, "{\"format\":%s,\"compression\":%s,\"id\":%s,\"message\":%s,\"schema\":%s,\"record\":%s,"
                + "\"key\":%s,\"time\":%d,\"value\":%s}", quote(format), quote(compression), quote(id.toString()), quote(message),
                quote(schema), quote(Base64.getEncoder().encodeToString(record)), quote(key), time, value));
        }
    }

    static Descriptors.Descriptor find(List<Descriptors.Descriptor> list, String name) {
        for (Descriptors.Descriptor d : list) {
            if (d.getFullName().equals(name)) return d;
            Descriptors.Descriptor in = find(d.getNestedTypes(), name);
            if (in != null) return in;
        }
        return null;
    }

    public static void main(String[] args) throws Exception {
        GlueSchemaRegistryConfiguration c = new GlueSchemaRegistryConfiguration(Map.of("region", "eu-west-1"));
        String pad = "y".repeat(300); // for zlib
        String avro = "{\"type\":\"record\",\"name\":\"Reading\",\"fields\":[{\"name\":\"id\",\"type\":\"string\"},"
            + "{\"name\":\"at\",\"type\":{\"type\":\"long\",\"logicalType\":\"timestamp-millis\"}},"
            + "{\"name\":\"temp\",\"type\":\"double\"},{\"name\":\"note\",\"type\":\"string\"}]}";
        GenericRecord r = new GenericData.Record(new Schema.Parser().parse(avro));
        r.put("id", "press-1"); r.put("at", 1700000000123L); r.put("temp", 71.25); r.put("note", pad);
        add("avro", avro, new AvroSerializer().serialize(r), UUID.fromString("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"), "",
            "press-1", 1700000000123L, 71.25);

        String json = "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"object\",\"properties\":{"
            + "\"id\":{\"type\":\"string\"},\"at\":{\"type\":\"integer\"},\"temp\":{\"type\":\"number\"},\"note\":{\"type\":\"string\"}}}";
        String payload = "{\"id\":\"press-2\",\"at\":1700000000124,\"temp\":-40.5,\"note\":\"" + pad + "\"}";
        add("json", json, JsonSerializer.builder().configs(c).build().serialize(JsonDataWithSchema.builder(json, payload).build()),
            UUID.fromString("0fd9c1ca-5b1a-4f05-9a0c-3e5a7e6cc9aa"), "", "press-2", 1700000000124L, -40.5);

        String proto = "syntax = \"proto3\";\npackage plant;\nmessage Reading {\n  message Zone { string note = 1; }\n"
            + "  message Inner { string id = 1; int64 at = 2; double temp = 3; string note = 4; }\n"
            + "  map<string, double> labels = 7;\n  string id = 1;\n  int64 at = 2;\n  double temp = 3;\n  string note = 4;\n}\n"
            + "message Alpha {\n  string id = 1;\n  int64 at = 2;\n  double temp = 3;\n  string note = 4;\n}\n";
        Descriptors.FileDescriptor file = ProtobufSchemaParser.parse(proto, "plant.proto");
        int n = 0;
        for (String name : List.of("plant.Reading", "plant.Alpha", "plant.Reading.Inner")) {
            Descriptors.Descriptor d = find(file.getMessageTypes(), name);
            DynamicMessage m = DynamicMessage.newBuilder(d)
                .setField(d.findFieldByName("id"), "pump-" + n).setField(d.findFieldByName("at"), 1700000001000L + n)
                .setField(d.findFieldByName("temp"), 0.5 + n).setField(d.findFieldByName("note"), pad).build();
            add("protobuf", proto, new ProtobufSerializer(c).serialize(m), UUID.fromString("6e2d7d4c-77d5-4c6a-8f5e-0a3f6f9f2b11"), name,
                "pump-" + n, 1700000001000L + n, 0.5 + n);
            n++;
        }
        Files.write(Path.of(args[0]), out.append("\n]\n").toString().getBytes(StandardCharsets.UTF_8));
    }
}
