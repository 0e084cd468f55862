package kafkaconnect

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/linkedin/goavro/v2"

	"odradek/processor/kafkatest"
)

// database is a PostgreSQL server with a user and a database of the settings' names.
type database struct {
	*sql.DB
	addr     string
	password string // file of the password, as settings name it
}

func startPostgres(t *testing.T) *database {
	t.Helper()
	files := postgresFiles(t)
	dir, as := unprivileged(t)
	copyTree(t, files, filepath.Join(dir, "files"))
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	const password = "forgotten-by-the-end-of-the-test"
	d := &database{addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), password: filepath.Join(t.TempDir(), "postgres")}
	for name, text := range map[string]string{d.password: "password=" + password, filepath.Join(dir, "password"): password} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := as(exec.Command(filepath.Join(dir, "files/bin/initdb"), "-D", data, "-U", "odradek", "-A", "scram-sha-256",
		"--pwfile="+filepath.Join(dir, "password"), "--no-locale", "-E", "UTF8", "--no-sync", "--no-instructions")).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p := start(t, "postgres", as(exec.Command(filepath.Join(dir, "files/bin/postgres"), "-D", data, "-p", strconv.Itoa(ports[0]),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=16MB")))
	open := func(name string) *sql.DB {
		u := url.URL{Scheme: "postgres", User: url.UserPassword("odradek", password), Host: d.addr, Path: name, RawQuery: "sslmode=disable"}
		db, err := sql.Open("postgres", u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	p.wait(t, "a database", func() error {
		_, err := open("postgres").ExecContext(t.Context(), "CREATE DATABASE plant")
		return err
	})
	d.DB = open("plant")
	return d
}

// rows returns the rows of the anomalies, by id, each value as text.
func (d *database) rows(t *testing.T) (map[string]map[string]string, error) {
	t.Helper()
	rows, err := d.QueryContext(t.Context(), "SELECT * FROM anomalies")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, name := range columns {
			row[name] = text(values[i])
		}
		if all[row["id"]] != nil {
			t.Fatalf("two rows of anomaly %s", row["id"])
		}
		all[row["id"]] = row
	}
	return all, rows.Err()
}

// text is a value as text, times to milliseconds.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case time.Time:
		return v.UTC().Truncate(time.Millisecond).Format("2006-01-02 15:04:05.000")
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// row returns what the table should have of an anomaly.
func row(t *testing.T, codec *goavro.Codec, fields map[string]any) map[string]string {
	t.Helper()
	var schema struct {
		Fields []struct {
			Name string
			Type any
		}
	}
	if err := json.Unmarshal([]byte(codec.Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	row := map[string]string{}
	for _, f := range schema.Fields {
		if slices.Contains([]string{"expected", "actual", "contribution", "like"}, f.Name) {
			continue
		}
		v := bare(fields[f.Name])
		if !slices.Contains([]string{"source", "region", "member", "escalation", "recurs"}, f.Name) {
			row[f.Name] = text(v)
			continue
		}
		record := f.Type
		if branches, ok := record.([]any); ok {
			record = branches[1]
		}
		for _, inner := range record.(map[string]any)["fields"].([]any) {
			name := inner.(map[string]any)["name"].(string)
			values, _ := v.(map[string]any)
			row[f.Name+"_"+name] = text(bare(values[name]))
		}
	}
	return row
}

// bare is a value without the name of its branch of a union.
func bare(v any) any {
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for _, inner := range m {
			return inner
		}
	}
	return v
}

// TestJDBC: a worker's anomalies, in Avro with a registry, go through Kafka Connect and Debezium's JDBC sink into PostgreSQL, with the
// settings for users. The table has a row for each anomaly, its newest state: when they open, after updates while Connect was
// killed, and when they are closed. Records of an aborted transaction are not in it.
func TestJDBC(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) { testJDBC(t, kind) })
	}
}

func testJDBC(t *testing.T, kind string) {
	if _, err := kafkatest.Java(); err != nil {
		kafkatest.Missing(t, "kafka", &kafkatest.MissingError{What: "Kafka Connect", Err: err})
	}
	cluster := kafkatest.Open(t, kind)
	registry := kafkatest.Registry(t)
	p := newPlant(t, cluster, "SCHEMA_REGISTRY_URL="+registry.URL)
	debezium, err := kafkatest.CachedFile(t.Context(), "debezium-jdbc-plugin-"+debeziumVersion,
		"io.debezium:debezium-connector-jdbc:"+debeziumVersion+":tar.gz:plugin", kafkatest.UntarGz)
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	converter := jars(t, "apicurio-converter-"+converterVersion, kafkatest.Artifact{Group: "io.apicurio",
		Name: "apicurio-registry-utils-converter", Version: converterVersion, Without: []string{"org.apache.kafka:*"}})
	db := startPostgres(t)
	c := newConnect(t, cluster.Brokers, debezium, filepath.Dir(converter))
	settings := debeziumSettings(t, p, db, registry)
	codec, decode := avro(t)

	// waitEqual waits until the table has what the topic has.
	waitEqual := func(when string) {
		t.Helper()
		c.wait(t, "the rows of the topic, "+when, func() error {
			c.check(t, "odradek-anomalies-jdbc")
			rows, err := db.rows(t)
			if err != nil {
				return err
			}
			want := p.newest(decode)
			if len(rows) != len(want) {
				return fmt.Errorf("%d rows of %d anomalies", len(rows), len(want))
			}
			for id, a := range want {
				want := row(t, codec, a.fields)
				for name, v := range want {
					if got, ok := rows[id][name]; !ok || got != v {
						return fmt.Errorf("anomaly %s has %s %q (%t), want %q", id, name, got, ok, v)
					}
				}
				if len(rows[id]) != len(want) {
					return fmt.Errorf("columns %v, want %v", rows[id], want)
				}
			}
			return nil
		})
	}
	p.step(60, 0)
	c.run(t, settings)
	p.step(1, sensors/2)
	p.waitFor(decode, sensors/2, "open")
	waitEqual("opened")

	// Connect has committed nothing yet (offset.flush.interval.ms is a minute): after the kill it reads all again.
	p.step(3, sensors/2)
	c.wait(t, "a row that is updated", func() error {
		var n int
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM anomalies WHERE revision > 1").Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("none")
		}
		return err
	})
	c.kill()
	p.step(4, 2*sensors/3)
	p.waitFor(decode, 2*sensors/3, "open", "update", "close")
	writeOthers(t, p, codec)
	c.run(t, settings)
	waitEqual("updated while Connect was down")
	p.step(30, 0)
	p.waitFor(decode, 2*sensors/3+1, "close")
	waitEqual("closed")
	records, updated := 0, 0
	all := p.newest(decode)
	for _, a := range all {
		records += a.records
		updated += a.records - 2
	}
	if updated < sensors/3 {
		t.Errorf("the anomalies have had %d updates: too few to see that the newest state wins", updated)
	}
	t.Logf("%d anomalies of %d records", len(all), records)
}

// debeziumSettings returns the settings for users with the addresses of the test.
func debeziumSettings(t *testing.T, p *plant, db *database, registry *kafkatest.RegistryServer) []byte {
	t.Helper()
	b, err := os.ReadFile(repository + "/deploy/connect/kafka-connect/jdbc-debezium.json")
	if err != nil {
		t.Fatal(err)
	}
	for old, now := range map[string]string{
		`"plant-anomalies"`:         strconv.Quote(p.anomalies),
		"//postgres:5432/":          "//" + db.addr + "/",
		"/run/secrets/postgres":     db.password,
		"http://registry:8080/apis": strings.TrimSuffix(registry.URL, "/ccompat/v7"),
	} {
		if strings.Count(string(b), old) != 1 {
			t.Fatalf("the settings do not have %s once", old)
		}
		b = []byte(strings.Replace(string(b), old, now, 1))
	}
	return b
}

// writeOthers writes an anomaly with a value in each field in a transaction, and two others in one that is aborted.
func writeOthers(t *testing.T, p *plant, codec *goavro.Codec) {
	t.Helper()
	records, err := kafkatest.ReadAll(t.Context(), p.cluster.Brokers, p.anomalies, true)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(1_767_225_660_123_456).UTC()
	anomaly := map[string]any{
		"id": strings.Repeat("0f", 16), "revision": int64(7), "kind": "close", "reason": goavro.Union("io.odradek.CloseReason", "recovered"),
		"series_key": "Linie 9/Öl", "detector": "map", "severity": int32(0), "band": "info", "start": at, "end": at.Add(time.Hour),
		"peak_time": at.Add(time.Second), "opened_at": at, "event_time": at.Add(time.Hour), "peak_score": goavro.Union("double", 1.0/3),
		"threshold": goavro.Union("double", math.MaxFloat64), "rank": goavro.Union("double", math.SmallestNonzeroFloat64), "samples": int64(math.MaxInt64),
		"expected": goavro.Union("array", []any{1.5, math.NaN()}), "actual": goavro.Union("array", []any{2.5, math.NaN()}),
		"contribution": goavro.Union("array", []any{1.0, 0.0}), "field": goavro.Union("string", "value"),
		"source": map[string]any{"topic": p.input, "partition": int32(2), "offset": int64(1) << 40},
		"region": goavro.Union("io.odradek.Region", map[string]any{"x0": -1.0, "y0": 0.0, "x1": 1.0, "y1": 2.0, "column_from": int32(0),
			"column_to": int32(1), "row_from": int32(2), "row_to": int32(3), "observed": int64(9), "expected": 0.25, "llr": 12.5,
			"p": goavro.Union("double", 0.001)}),
		"group": goavro.Union("string", strings.Repeat("0e", 16)),
		"member": goavro.Union("io.odradek.Member", map[string]any{"name": "near", "score": 9.5, "threshold": 4.25, "samples": int64(3),
			"peak_time": at.UnixMicro()}),
		"like": goavro.Union("io.odradek.Like", map[string]any{"count": int64(3), "labels": []any{"a", "b"},
			"most": 4.5}),
	}
	encode := func(id string) kafkatest.Record {
		anomaly["id"] = id
		b := binary.BigEndian.AppendUint32([]byte{0}, schemaID(records[0].Value))
		if b, err = codec.BinaryFromNative(b, anomaly); err != nil {
			t.Fatal(err)
		}
		return kafkatest.Record{Topic: p.anomalies, Partition: 2, Key: []byte("Linie 9/Öl"), Value: b, Time: at.UnixMilli()}
	}
	txns := [][]kafkatest.Record{{encode(strings.Repeat("0f", 16))}, {encode(strings.Repeat("ab", 16)), encode(strings.Repeat("cd", 16))}}
	if _, err := kafkatest.ProduceTransactions(t.Context(), p.cluster.Brokers, kafkatest.Unique("others"), txns, func(i int) bool { return i == 1 }); err != nil {
		t.Fatal(err)
	}
}
