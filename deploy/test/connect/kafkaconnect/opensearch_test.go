package kafkaconnect

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// The versions that are run. The client of Camel's component is of Elasticsearch 7, whose answers OpenSearch 1 gives.
const (
	opensearchVersion = "1.3.20"
	camelVersion      = "3.11.1"
	camelSinkVersion  = "0.11.0"
)

// opensearch is an OpenSearch server.
type opensearch struct {
	*program
	addr string
}

func startOpenSearch(t *testing.T) *opensearch {
	t.Helper()
	jvm, err := kafkatest.Java()
	if err != nil {
		kafkatest.Missing(t, "kafka", &kafkatest.MissingError{What: "OpenSearch", Err: err})
	}
	files, err := kafkatest.CachedFile(t.Context(), "opensearch-"+opensearchVersion,
		"org.opensearch.distribution.integ-test-zip:opensearch:"+opensearchVersion+":zip", unzip)
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	dir, as := unprivileged(t)
	home := filepath.Join(dir, "opensearch")
	copyTree(t, filepath.Join(files, "opensearch-"+opensearchVersion), home)
	ports, err := kafkatest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	o := &opensearch{addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	o.program = start(t, "opensearch", as(exec.Command(jvm, "-Xms300m", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.io.tmpdir="+dir, "-Dopensearch.path.home="+home, "-Dopensearch.path.conf="+filepath.Join(home, "config"),
		"-Dopensearch.networkaddress.cache.ttl=60", "-Dlog4j2.disable.jmx=true", "-cp", filepath.Join(home, "lib", "*"),
		"org.opensearch.bootstrap.OpenSearch", "-Ediscovery.type=single-node", fmt.Sprintf("-Ehttp.port=%d", ports[0]),
		fmt.Sprintf("-Etransport.port=%d", ports[1]), "-Enetwork.host=127.0.0.1")))
	o.wait(t, "an answer", func() error { return o.get("/", &struct{}{}) })
	return o
}

// unzip unpacks a zip below dir.
func unzip(name, dir string) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	return os.CopyFS(dir, z)
}

// get asks for JSON.
func (o *opensearch) get(path string, into any) error {
	res, err := http.Get("http://" + o.addr + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, res.Status, b)
	}
	return json.Unmarshal(b, into)
}

// documents returns the documents of the anomalies, by id.
func (o *opensearch) documents() (map[string]map[string]any, error) {
	var refreshed struct{}
	var found struct {
		Hits struct {
			Hits []struct {
				ID     string         `json:"_id"`
				Source map[string]any `json:"_source"`
			}
		}
	}
	if err := errors.Join(o.get("/anomalies/_refresh", &refreshed), o.get("/anomalies/_search?size=10000", &found)); err != nil {
		return nil, err
	}
	all := map[string]map[string]any{}
	for _, h := range found.Hits.Hits {
		all[h.ID] = h.Source
	}
	return all, nil
}

// times are the fields of an anomaly that are times.
var times = []string{"start", "end", "peak_time", "opened_at", "event_time"}

// document returns what the index should have of a record of an anomaly.
func document(fields map[string]any) map[string]any {
	doc := map[string]any{}
	for name, v := range fields {
		if slices.Contains(times, name) {
			at, ok := v.(time.Time)
			if !ok {
				at = time.UnixMicro(int64(v.(float64)))
			}
			v = at.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
		}
		doc[name] = v
	}
	b, err := json.Marshal(doc)
	if err == nil {
		doc = nil
		err = json.Unmarshal(b, &doc)
	}
	if err != nil {
		panic(err)
	}
	return doc
}

// TestOpenSearch: a worker's anomalies go through Kafka Connect and Camel's sink into OpenSearch, where their times are dates: when they
// open, after updates while Connect was killed, and when they are closed.
//   - With elasticsearch-camel.json there is a document for each anomaly, its newest state.
//   - With the converters and transforms of elasticsearch.json, whose own sink cannot be run here, there is one for each record. Camel
//     takes the id of a document from a header with a schema, and JSON has none.
func TestOpenSearch(t *testing.T) {
	kafkatest.LongOnly(t)
	camel := filepath.Dir(jars(t, "camel-elasticsearch-"+camelVersion,
		kafkatest.Artifact{Group: "org.apache.camel.kafkaconnector", Name: "camel-kafka-connector", Version: camelSinkVersion,
			Without: []string{"io.apicurio:*", "org.apache.kafka:*"}},
		kafkatest.Artifact{Group: "org.apache.camel", Name: "camel-elasticsearch-rest", Version: camelVersion}))
	t.Run("elasticsearch.json", func(t *testing.T) {
		cluster := kafkatest.Open(t, kafkatest.KindNewest)
		p := newPlant(t, cluster, "OUTPUT_FORMAT=json")
		o := startOpenSearch(t)
		decode := func(b []byte) (fields map[string]any, err error) {
			if err = json.Unmarshal(b, &fields); err == nil {
				fields["revision"] = int64(fields["revision"].(float64))
			}
			return fields, err
		}
		byRecord := func(docs map[string]map[string]any) map[string]map[string]any {
			all := map[string]map[string]any{}
			for _, doc := range docs {
				all[fmt.Sprint(doc["id"], " ", doc["revision"])] = doc
			}
			return all
		}
		testOpenSearch(t, p, o, newConnect(t, cluster.Brokers, camel), settingsOf(t, "elasticsearch.json", p, func(config map[string]string) {
			for _, own := range []string{"connection.url", "key.ignore", "schema.ignore", "behavior.on.null.values"} {
				delete(config, own)
			}
			config["connector.class"] = "org.apache.camel.kafkaconnector.CamelSinkConnector"
			config["camel.sink.url"] = "elasticsearch-rest://odradek?operation=Index&indexName=anomalies&hostAddresses=" + o.addr
		}), decode, byRecord, func() map[string]map[string]any {
			all := map[string]map[string]any{}
			for _, fields := range p.records(decode) {
				all[fmt.Sprint(fields["id"], " ", fields["revision"])] = document(fields)
			}
			return all
		})
	})
	t.Run("elasticsearch-camel.json", func(t *testing.T) {
		cluster := kafkatest.Open(t, kafkatest.KindNewest)
		registry := kafkatest.Registry(t)
		p := newPlant(t, cluster, "SCHEMA_REGISTRY_URL="+registry.URL)
		converter := jars(t, "apicurio-converter-"+converterVersion, kafkatest.Artifact{Group: "io.apicurio",
			Name: "apicurio-registry-utils-converter", Version: converterVersion, Without: []string{"org.apache.kafka:*"}})
		o := startOpenSearch(t)
		_, decode := avro(t)
		testOpenSearch(t, p, o, newConnect(t, cluster.Brokers, camel, filepath.Dir(converter)),
			settingsOf(t, "elasticsearch-camel.json", p, func(config map[string]string) {
				config["camel.sink.url"] = strings.Replace(config["camel.sink.url"], "elasticsearch:9200", o.addr, 1)
				config["value.converter.apicurio.registry.url"] = strings.Replace(config["value.converter.apicurio.registry.url"],
					"http://registry:8080/apis", strings.TrimSuffix(registry.URL, "/ccompat/v7"), 1)
			}), decode, maps.Clone[map[string]map[string]any], func() map[string]map[string]any {
				all := map[string]map[string]any{}
				for id, a := range p.newest(decode) {
					fields := map[string]any{}
					for name, v := range a.fields {
						if !slices.Contains([]string{"expected", "actual", "contribution"}, name) {
							fields[name] = bare(v)
						}
					}
					all[id] = document(fields)
				}
				return all
			})
		updated := 0
		for _, a := range p.newest(decode) {
			updated += a.records - 1
		}
		if updated < sensors {
			t.Errorf("%d records replace one before: too few", updated)
		}
	})
}

// testOpenSearch runs a connector while anomalies open, are updated and close. The documents, with the ids
// that rekey gives them, are to be as want has them.
func testOpenSearch(t *testing.T, p *plant, o *opensearch, c *connect, settings []byte, decode func([]byte) (map[string]any, error),
	rekey func(map[string]map[string]any) map[string]map[string]any, want func() map[string]map[string]any) {
	waitEqual := func(when string) {
		t.Helper()
		c.wait(t, "the documents of the topic, "+when, func() error {
			c.check(t, "odradek-anomalies-elasticsearch")
			all, err := o.documents()
			if err != nil {
				return err
			}
			docs, want := rekey(all), want()
			for id, doc := range want {
				if !reflect.DeepEqual(docs[id], doc) {
					return fmt.Errorf("the document is %v, want %v", docs[id], doc)
				}
			}
			if len(docs) != len(want) {
				return fmt.Errorf("%d documents, want %d", len(docs), len(want))
			}
			return nil
		})
	}
	p.step(60, 0)
	c.run(t, settings)
	p.step(1, sensors/2)
	p.waitFor(decode, sensors/2, "open")
	waitEqual("opened")
	c.kill()
	p.step(7, 2*sensors/3)
	p.waitFor(decode, 2*sensors/3, "open", "update", "close")
	c.run(t, settings)
	waitEqual("updated while Connect was down")
	p.step(30, 0)
	p.waitFor(decode, 2*sensors/3, "close")
	waitEqual("closed")
	var mapping map[string]struct {
		Mappings struct {
			Properties map[string]struct{ Type string }
		}
	}
	if err := o.get("/anomalies/_mapping", &mapping); err != nil {
		t.Fatal(err)
	}
	for _, field := range times {
		if got := mapping["anomalies"].Mappings.Properties[field].Type; got != "date" {
			t.Errorf("%s is of type %q, want date", field, got)
		}
	}
}

// settingsOf returns settings for users with the topic of the test and what change makes of the rest.
func settingsOf(t *testing.T, name string, p *plant, change func(config map[string]string)) []byte {
	t.Helper()
	b, err := os.ReadFile(repository + "/deploy/connect/kafka-connect/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Name   string            `json:"name"`
		Config map[string]string `json:"config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	file.Config["topics"] = p.anomalies
	change(file.Config)
	if b, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return b
}
