package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// registry is the name of the kind whose input is Avro, with a schema registry.
const registry = "registry"

// avro writes readings as Avro: each schema has one field more than what is mapped, of another name.
type avro struct {
	server  *kafkatest.RegistryServer
	subject string
	id      int32 // of the schema in use
	schemas int
}

// openRegistry starts a registry with the first schema of the input.
func openRegistry(ctx context.Context, input string) (*avro, error) {
	server, err := kafkatest.StartFakeRegistry()
	if err != nil {
		return nil, err
	}
	a := &avro{server: server, subject: input + "-value"}
	if a.id, err = a.register(ctx); err != nil {
		server.Close()
		return nil, err
	}
	return a, nil
}

// settings are the workers' settings of Avro. The outputs remain JSON.
func (a *avro) settings() (env []string) {
	if a == nil {
		return nil
	}
	return []string{config.Prefix + "FORMAT=avro", config.Prefix + "OUTPUT_FORMAT=json", config.Prefix + "SCHEMA_REGISTRY_URL=" + a.server.URL}
}

func (a *avro) close() {
	if a != nil {
		a.server.Close()
	}
}

// register registers the next schema and returns its id.
func (a *avro) register(ctx context.Context) (int32, error) {
	schema := fmt.Sprintf(`{"type":"record","name":"Reading","fields":[{"name":"sensor","type":"string"},{"name":"at","type":"long"},`+
		`{"name":"value","type":["null","double"]},{"name":"f%d","type":"long","default":0}]}`, a.schemas)
	a.schemas++
	body, err := json.Marshal(map[string]string{"schema": schema})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.server.URL+"/subjects/"+a.subject+"/versions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var answer struct {
		ID int32 `json:"id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.ID == 0 {
		return 0, fmt.Errorf("faults: register a schema: %s: %w", res.Status, err)
	}
	return answer.ID, nil
}

// encode returns a reading with the framing of a registry: a zero and the schema's id.
func (a *avro) encode(sensor string, at int, value *float64) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(a.id))
	b = binary.AppendVarint(b, int64(len(sensor)))
	b = append(b, sensor...)
	b = binary.AppendVarint(b, int64(at))
	if value == nil {
		b = append(b, 0)
	} else {
		b = binary.LittleEndian.AppendUint64(append(b, 2), math.Float64bits(*value))
	}
	return binary.AppendVarint(b, 7)
}

// readingValue returns the value of a reading, of JSON or of Avro; nil where it is missing.
func readingValue(text []byte) (*float64, error) {
	if len(text) == 0 || text[0] != 0 {
		var r struct {
			Value *float64 `json:"value"`
		}
		err := json.Unmarshal(text, &r)
		return r.Value, err
	}
	bad := fmt.Errorf("faults: a reading of %d bytes: %x", len(text), text)
	if len(text) < 5 {
		return nil, bad
	}
	rest := text[5:]
	name, n := binary.Varint(rest)
	if n <= 0 || name < 0 || int64(len(rest)-n) < name {
		return nil, bad
	}
	rest = rest[n+int(name):]
	_, n = binary.Varint(rest)
	if n <= 0 || len(rest) == n {
		return nil, bad
	}
	if rest = rest[n:]; rest[0] == 0 {
		return nil, nil
	}
	if len(rest) < 9 {
		return nil, bad
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(rest[1:]))
	return &v, nil
}

// registryDown has records of a new schema arrive while no registry answers, and often a worker start.
func (r *round) registryDown() error {
	a := r.load.avro
	id, err := a.register(r.ctx)
	if err != nil {
		return err
	}
	a.server.Stop()
	r.load.mu.Lock()
	a.id = id
	r.load.mu.Unlock()
	if r.rng.IntN(2) == 0 {
		i := r.anyWorker()
		r.workers[i].Kill()
		r.kills++
		if err := r.replace(i); err != nil {
			return err
		}
	}
	r.pause(time.Second, 6*time.Second)
	if err := a.server.Start(r.ctx); err != nil {
		return err
	}
	r.pause(0, 3*time.Second)
	return nil
}
