package formats

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"odradek/schemas"
	"odradek/schemas/registry"
)

// glueRecord is a record that AWS's serializers for Java have written (testdata/glue/Glue.java), with what they were given.
type glueRecord struct {
	Format, Compression, ID, Message, Schema, Key string
	Record                                        []byte
	Time                                          int64 // ms
	Value                                         float64
}

func glueRecords(t *testing.T) (list []glueRecord) {
	t.Helper()
	b, err := os.ReadFile("testdata/glue/records.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) != 10 {
		t.Fatalf("%d records: %v", len(list), err)
	}
	return list
}

// startGlue answers GetSchemaVersion as AWS documents it. fault is the type of its next errors.
func startGlue(t *testing.T, fault *string) *registry.Client {
	t.Helper()
	list := glueRecords(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			ID string `json:"SchemaVersionId"`
		}
		b, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("X-Amz-Target") != "AWSGlue.GetSchemaVersion" ||
			r.Header.Get("Content-Type") != "application/x-amz-json-1.1" || r.Header.Get("Authorization") != "signed "+string(b) ||
			json.Unmarshal(b, &ask) != nil {
			t.Errorf("request %s %s %v %s", r.Method, r.URL, r.Header, b)
		}
		kind := *fault
		for i := range list {
			if kind == "" && list[i].ID == ask.ID {
				_ = json.NewEncoder(w).Encode(map[string]any{"SchemaVersionId": ask.ID, "SchemaDefinition": list[i].Schema,
					"DataFormat": strings.ToUpper(list[i].Format), "VersionNumber": 3, "Status": "AVAILABLE",
					"SchemaArn": "arn:aws:glue:eu-west-1:1:schema/plant/readings", "CreatedTime": "2026-01-31T08:00:00Z"})
				return
			}
		}
		if kind == "" {
			kind = "EntityNotFoundException"
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": kind, "Message": "Schema version is not found."})
	}))
	t.Cleanup(s.Close)
	return open(t, registry.Config{URLs: []string{s.URL}, Sign: func(_ context.Context, req *http.Request, body []byte) error {
		req.Header.Set("Authorization", "signed "+string(body))
		return nil
	}})
}

var glueMapping = schemas.Mapping{Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"temp"}}

// TestGlue: records of AWS's own serializers say what these were given, by Glue's registry and by a schema file.
func TestGlue(t *testing.T) {
	var fault string
	reg := startGlue(t, &fault)
	read := func(what string, d *Decoder, r glueRecord) {
		t.Helper()
		var out schemas.Reading
		if err := d.Decode(t.Context(), nil, r.Record, 0, nil, &out); err != nil || string(out.Key) != r.Key ||
			out.Time != r.Time*1000 || out.Values[0] != r.Value {
			t.Errorf("%s, %s %s %s: %q %v, %v", what, r.Format, r.Compression, r.Message, out.Key, out, err)
		}
	}
	all, err := NewDecoder(glueMapping, reg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inspector, err := NewInspector(reg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range glueRecords(t) {
		read("registry", all, r)
		read("again", all, r)
		named, err := NewDecoder(glueMapping, reg, Options{Format: r.Format})
		if err != nil {
			t.Fatal(err)
		}
		read("registry, format given", named, r)
		file := OfFile(r.Format, r.Schema)
		if r.Format == "json" {
			file = OfFile(r.Format, "")
		}
		d, err := NewDecoder(glueMapping, nil, file)
		if err != nil {
			t.Fatal(err)
		}
		read("file", d, r)
		read("file, clone", d.Clone().(*Decoder), r)

		leaves := schemas.Leaves{Most: 100}
		if _, err := inspector.Leaves(t.Context(), r.Record, nil, &leaves); err != nil || !hasLeaf(&leaves, r.Value) {
			t.Errorf("%s %s %s: leaves: %v", r.Format, r.Compression, r.Message, err)
		}
		if ref, ok := all.Ref(nil, r.Record, nil); !ok || ref != schemas.RefOf('g', r.Record[2:18]) {
			t.Errorf("%s: ref %v", r.Format, ref)
		}
	}
	if n := reg.Stats().Requests; n != 3 {
		t.Errorf("%d requests for 3 schemas", n)
	}
}

func hasLeaf(l *schemas.Leaves, want float64) bool {
	found := false
	for i := range l.List {
		found = found || l.List[i].Float == want
	}
	return found
}

// TestGlueKeys: a Kafka key in Glue's framing.
func TestGlueKeys(t *testing.T) {
	var fault string
	r := glueRecords(t)[1]
	d, err := NewDecoder(schemas.Mapping{Key: "@key.id", Time: "@timestamp", Fields: []string{"v"}}, startGlue(t, &fault),
		Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	var out schemas.Reading
	if err := d.Decode(t.Context(), r.Record, []byte(`{"v": 2}`), 5, nil, &out); err != nil || string(out.Key) != r.Key {
		t.Errorf("%q, %v", out.Key, err)
	}
}

func TestGlueFaults(t *testing.T) {
	var fault string
	reg := startGlue(t, &fault)
	d, err := NewDecoder(glueMapping, reg, Options{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	list := glueRecords(t)
	avro, zipped, proto := list[0].Record, list[1].Record, list[4].Record
	var bomb bytes.Buffer
	z := zlib.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 1001))
	_ = z.Close()
	with := func(head []byte, body ...byte) []byte { return append(bytes.Clone(head[:18]), body...) }
	for name, c := range map[string]struct {
		value []byte
		class string
	}{
		"header alone":           {avro[:17], schemas.ClassTruncated},
		"nothing after it":       {avro[:18], schemas.ClassTruncated},
		"other compression":      {append([]byte{3, 7}, avro[2:]...), schemas.ClassMagic},
		"zlib cut off":           {zipped[:len(zipped)-9], schemas.ClassTruncated},
		"zlib of nothing":        {zipped[:18], schemas.ClassTruncated},
		"no zlib":                {with(zipped, 1, 2, 3, 4, 5, 6, 7), schemas.ClassMalformed},
		"too large":              {with(zipped, bomb.Bytes()...), schemas.ClassTooLarge},
		"no number":              {with(proto), schemas.ClassTruncated},
		"no such message":        {with(proto, 9), schemas.ClassMalformed},
		"an entry of a map":      {with(proto, 3), schemas.ClassMalformed},
		"Confluent's id":         {binary.BigEndian.AppendUint32([]byte{0}, 7), schemas.ClassUnknownSchema},
		"a version of no schema": {with(append([]byte{3, 0, 9}, avro[3:]...), avro[18:]...), schemas.ClassUnknownSchema},
	} {
		var out schemas.Reading
		var e *schemas.DecodeError
		if err := d.Decode(t.Context(), nil, c.value, 0, nil, &out); !errors.As(err, &e) || e.Class != c.class {
			t.Errorf("%s: %v, want class %s", name, err, c.class)
		}
	}
	if err := reg.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for kind, want := range map[string]string{"AccessDeniedException": "glue:GetSchemaVersion", "ExpiredTokenException": "AWS SDK",
		"ThrottlingException": "429", "com.amazonaws.glue#InternalServiceException": "InternalServiceException"} {
		fault = kind
		fresh := startGlue(t, &fault)
		d, err := NewDecoder(glueMapping, fresh, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out schemas.Reading
		var e *schemas.DecodeError
		err = d.Decode(t.Context(), nil, avro, 0, nil, &out)
		if !errors.As(err, &e) || !e.Retry || e.Absent || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one to wait for, with %s", kind, err, want)
		}
		if err := fresh.Ping(t.Context()); err == nil {
			t.Errorf("%s: reached", kind)
		}
	}
}

// TestGlueOrBare: with a schema file whose records may begin as Glue's header does, none is taken for one.
func TestGlueOrBare(t *testing.T) {
	schema := record(`{"name":"n","type":"long"},{"name":"id","type":"string"},{"name":"v","type":"double"}`)
	value := []byte{3, 0, 40} // -2, and a key of 20 bytes that begins with byte 0
	value[1], value[2] = 40, 0
	value = append(value, bytes.Repeat([]byte("k"), 19)...)
	value = binary.LittleEndian.AppendUint64(value, math.Float64bits(1.5))
	empty := append([]byte{3, 0}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5))...)
	empty = append(empty, make([]byte, 8)...)
	wide := record(`{"name":"n","type":"long"},{"name":"id","type":"string"},{"name":"v","type":"double"},{"name":"w","type":"double"}`)
	for text, value := range map[string][]byte{schema: value, wide: empty} {
		d, err := NewDecoder(schemas.Mapping{Key: "id", Time: "@timestamp", Fields: []string{"v"}}, nil, OfFile("avro", text))
		if err != nil {
			t.Fatal(err)
		}
		var out schemas.Reading
		err = d.Decode(t.Context(), nil, value, time.Now().UnixMilli(), nil, &out)
		if len(value) == 18 { // an empty key is a fault of its own, and says that the record was read as it is
			wantClass(t, err, schemas.ClassMissingKey, "id")
		} else if err != nil || out.Values[0] != 1.5 {
			t.Errorf("%v %v", out, err)
		}
	}
}
