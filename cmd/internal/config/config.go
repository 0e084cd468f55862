// Package config has the settings of the worker: it reads them from the environment,
// sets the defaults, names every fault, and documents them.
// Methods of Config turn them into the configuration of the Kafka client, the schema
// registry, the decoder and the state.
//
// Config (config.go) is the table: a field's tags are a setting's name, default, limits and text. Parse reads the environment and
// the settings file (parse.go, file.go) and checks what tags cannot say (check.go, detectors.go); each step adds its faults to
// those before. Package detectors/threshold parses a threshold, each op its own parameters, package schemas a mapping.
// Presets are in presets.go; plan.go says what a change of the file does to a running worker, which reload.go watches for.
package config

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/state"
)

// Prefix begins the name of every setting.
const Prefix = "ODRADEK_"

// Config has every setting of the worker. The tags are the single source of
// names, defaults, limits and descriptions: docs/configuration.md, `config` and
// the checks are all made from them.
//
//	env        name after the prefixes of the structs around it
//	envDefault the one default; a field without it has none
//	oneof      the values that are allowed
//	min, max   limits of a number, a size or a duration, inclusive
//	values     what is allowed, in words, where that is checked elsewhere
//	doc        one or two sentences for docs/configuration.md, or for the pages of the ops
//	example    of a detector's setting: a value other than the default
//	ops        of a detector's setting: the ops that alone have it
//	expert     of an op's parameter: its page has it in the table for experts
//	stateless  of an op's parameter: no state depends on it
//	live       a changed value holds without a restart (reload.go)
//	mapping    a mapping may give another value for its topics, as of each setting of the section "Records to samples"
//	url        may carry a user and a password, which are never printed
//	derived    the default in words, where it depends on other settings
//
// {ops}, {formats} and the like stand for texts from the tables of ops and of formats (tableTexts).
type Config struct {
	Kafka    kafkaSettings    `envPrefix:"KAFKA_" section:"Kafka"`
	Group    groupSettings    `section:"Consumer group and input topics"`
	Registry registrySettings `envPrefix:"SCHEMA_REGISTRY_" section:"Schemas"`
	Mapping  mappingSettings  `section:"Records to samples"`
	Keys     keySettings      `section:"State of a series"`
	Detect   detectSettings   `section:"Detectors"`
	Output   outputSettings   `section:"Output topics"`
	Cycle    cycleSettings    `section:"Guarantee and commit cycle"`
	Fetch    fetchSettings    `section:"Fetching and scoring"`
	GPU      gpuSettings      `envPrefix:"CUDA_" section:"GPU"`
	Program  programSettings  `section:"Program"`

	// Detectors are the settings of each name of ODRADEK_DETECTORS, in order.
	Detectors []DetectorSettings

	settings []setting // every setting with its value and source, in the order of the docs

	mapped []mapped // by name
	inputs *FoundTopics

	// again parses the same texts with another value of a variable.
	again func(name, value string) (*Config, []Fault)

	// Of the settings of a mapping:
	mappingName string
	root        *Config  // the settings outside of mappings
	picked      []string // of its DETECTORS
	parsed      []Fault  // of parsing
}

type kafkaSettings struct {
	Brokers       []string      `env:"BROKERS" envDefault:"localhost:9092" doc:"Bootstrap brokers, host:port."`
	ClientID      string        `env:"CLIENT_ID" envDefault:"odradek" doc:"Client id in the brokers' logs and quotas."`
	TLS           bool          `env:"TLS" envDefault:"false" doc:"Use TLS to the brokers."`
	TLSCAFile     string        `env:"TLS_CA_FILE" doc:"PEM file of certificate authorities; without it the system's."`
	TLSCertFile   string        `env:"TLS_CERT_FILE" doc:"PEM file of the client certificate."`
	TLSKeyFile    string        `env:"TLS_KEY_FILE" doc:"PEM file of its key."`
	TLSServerName string        `env:"TLS_SERVER_NAME" doc:"Name in the brokers' certificate, if it is not the address."`
	TLSInsecure   bool          `env:"TLS_INSECURE" envDefault:"false" doc:"Do not verify the brokers' certificate. For tests only."`
	SASLMechanism string        `env:"SASL_MECHANISM" oneof:"|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|AWS_MSK_IAM" doc:"SASL mechanism; empty: none. AWS_MSK_IAM takes AWS credentials where the AWS SDK finds them. See docs/operations/kafka.md."`
	Username      string        `env:"USERNAME" doc:"SASL user name."`
	Password      Secret        `env:"PASSWORD" doc:"SASL password."`
	AWSRegion     string        `env:"AWS_REGION" derived:"from the brokers' names" doc:"AWS region of the brokers, for AWS_MSK_IAM, as eu-west-1."`
	OAuthToken    Secret        `env:"OAUTH_TOKEN" doc:"Token for OAUTHBEARER that another program keeps fresh in the file of ODRADEK_KAFKA_OAUTH_TOKEN_FILE, instead of OAUTH_TOKEN_URL."`
	Extensions    []string      `env:"OAUTH_EXTENSIONS" doc:"SASL extensions of OAUTHBEARER, as logicalCluster=lkc-1,identityPoolId=pool-1 for Confluent Cloud."`
	OAuth         oauthSettings `envPrefix:"OAUTH_"`
}

// oauthSettings say where tokens for client credentials come from.
type oauthSettings struct {
	TokenURL string `env:"TOKEN_URL" doc:"Token endpoint of an identity provider, as https://login.example.com/oauth2/token: it gives tokens for client credentials (OAuth 2.0)."`
	ClientID string `env:"CLIENT_ID" doc:"Client id at the token endpoint."`
	Secret   Secret `env:"CLIENT_SECRET" doc:"Client secret at the token endpoint."`
	Scope    string `env:"SCOPE" doc:"Scopes to ask for, separated by spaces, as api://kafka/.default."`
	Audience string `env:"AUDIENCE" doc:"Audience to ask for, where the provider wants one, as kafka."`
	CAFile   string `env:"CA_FILE" doc:"PEM file of the token endpoint's certificate authorities; without it the system's."`
}

type groupSettings struct {
	Group            string        `env:"GROUP" doc:"Consumer group id, required. Names of topics derive from it."`
	InstanceID       string        `env:"INSTANCE_ID" derived:"from STATE_DIRECTORY, where that is set" doc:"Makes the membership static: a worker that is back under this id within the session timeout keeps its partitions. Unique in the group; off: dynamic. See docs/operations/scale.md."`
	Topics           []string      `env:"TOPICS" doc:"Input topics, required. An entry with * or ? is a pattern. See docs/records.md."`
	Start            string        `env:"START" envDefault:"earliest" doc:"Where to begin in a partition without a committed offset: earliest, latest, or a time (RFC 3339)."`
	WarmupFrom       time.Duration `env:"WARMUP_FROM" envDefault:"0s" min:"0s" max:"87600h" doc:"A new partition first reads this much input from before its start, to fill windows; nothing of it is published. Needs START=latest or a time; not with REKEY. See docs/operations/start.md."`
	OffsetLost       string        `env:"OFFSET_LOST" envDefault:"fail" oneof:"fail|earliest|latest" doc:"If the committed offset, or a record before it, is gone after retention or an unclean leader election: fail stops the worker (exit code 4); earliest and latest empty the partition's state and resume there."`
	Protocol         string        `env:"GROUP_PROTOCOL" envDefault:"classic" oneof:"classic|consumer" doc:"consumer: the brokers assign partitions (KIP-848, Kafka 4.0), their group.consumer.session.timeout.ms counts, and a hand-over must end within REBALANCE_TIMEOUT. Change it with all workers stopped."`
	SessionTimeout   time.Duration `env:"SESSION_TIMEOUT" envDefault:"45s" min:"1s" max:"30m" doc:"A member without a heartbeat for this long loses its partitions."`
	RebalanceTimeout time.Duration `env:"REBALANCE_TIMEOUT" envDefault:"60s" min:"1s" max:"1h" doc:"How long a rebalance waits for a member to hand over."`
	InstanceDir      string        `env:"-"` // that keeps the id; empty: InstanceID is it, or there is none
}

type registrySettings struct {
	URLs     []string      `env:"URL" url:"true" doc:"Base URLs of a schema registry with the Confluent API, tried in order, or the endpoint of AWS Glue, such as https://glue.eu-west-1.amazonaws.com. Needed for records in Confluent framing."`
	Username string        `env:"USERNAME" doc:"User name for basic authentication."`
	Password Secret        `env:"PASSWORD" doc:"Password for basic authentication."`
	Token    Secret        `env:"TOKEN" doc:"Bearer token, instead of user name and password."`
	CAFile   string        `env:"CA_FILE" doc:"PEM file of certificate authorities for https."`
	CertFile string        `env:"CERT_FILE" doc:"PEM file of the client certificate, where the registry asks for one."`
	KeyFile  string        `env:"KEY_FILE" doc:"PEM file of its key."`
	OAuth    oauthSettings `envPrefix:"OAUTH_"`
	Cluster  string        `env:"LOGICAL_CLUSTER" doc:"Confluent Cloud's id of the registry, as lsrc-1, with a token."`
	Pool     string        `env:"IDENTITY_POOL" doc:"Confluent Cloud's id of the identity pool, as pool-1, with a token."`
	CacheDir string        `env:"CACHE_DIR" derived:"the platform's cache folder" doc:"Folder of fetched schemas, for starts without the registry; off: none. Default: schemas in systemd's CACHE_DIRECTORY or STATE_DIRECTORY, else odradek/schemas in the user's cache folder."`
	Grace    time.Duration `env:"GRACE" envDefault:"30s" min:"0s" max:"1h" doc:"How long a record and its partition wait for a schema that the registry does not have yet. Then the record is a dead letter."`
}

type mappingSettings struct {
	Format        string   `env:"FORMAT" envDefault:"auto" oneof:"{formats}" doc:"Format of the records. auto takes the type of each record's schema in the registry, and Avro for records without a schema id. json, influx (the line protocol of InfluxDB and Telegraf) and otlp (metrics of OpenTelemetry) need no registry."`
	SchemaFile    string   `env:"SCHEMA_FILE" doc:"Schema of records without one: Avro, a .proto file (its first message), or with FORMAT=json a JSON Schema to check the mapping against. With Avro and .proto the worker looks for Confluent framing only in headers."`
	KeyField      string   `env:"KEY_FIELD" envDefault:"@key" doc:"Field path of the series key, such as device.id; site+id gives oslo/42. @key is the record's Kafka key, @key.id a field of it, @partition its partition. See docs/records.md."`
	TimeField     string   `env:"TIME_FIELD" envDefault:"@timestamp" doc:"Field path of the event time; @timestamp is the record's Kafka timestamp."`
	TimeUnit      string   `env:"TIME_UNIT" envDefault:"auto" oneof:"auto|s|ms|us|ns" doc:"Unit of a time without a logical type; auto: milliseconds, with FORMAT=influx nanoseconds."`
	TimeZone      string   `env:"TIME_ZONE" doc:"Zone of times that are texts without an offset, such as Europe/Berlin or UTC. Without it such a record is a dead letter."`
	TimeLayout    string   `env:"TIME_LAYOUT" doc:"Layout of times that are texts, in directives of strptime, as %d.%m.%Y %H:%M:%S. By default RFC 3339. See docs/records.md."`
	ValueFields   []string `env:"VALUE_FIELDS" envDefault:"value" doc:"Field paths of a sample's values; accel[3] is an array of three."`
	SeriesFields  []string `env:"SERIES_FIELDS" doc:"Field paths of which each is a series of its own, in place of VALUE_FIELDS; metrics.* stands for each number below metrics. See docs/records.md."`
	Units         []string `env:"UNITS" doc:"Units of values in anomalies and on the page, such as temperature=°C,pressure=bar."`
	Valid         []string `env:"VALID" doc:"Bounds of values, as temperature=-40..150,pressure=0.. A value outside is missing. See docs/records.md."`
	MissingIf     []string `env:"MISSING_IF" doc:"Numbers that mean a missing value, as temperature=-9999|6553.5. See docs/records.md."`
	Decimals      []string `env:"DECIMALS" doc:"Scales of values that are decimals in base64, as price=2, in JSON of Kafka Connect without its schema. See docs/records.md."`
	Transform     []string `env:"TRANSFORM" derived:"counter=rate with FORMAT=otlp" doc:"What a value becomes before it enters a window: rate, difference, log or abs, as bytes_total=rate. See docs/records.md."`
	Compute       string   `env:"COMPUTE" doc:"Values that are computed in CEL of a record's fields, as celsius=(raw - 32.0) * 5.0 / 9.0, separated by commas. VALUE_FIELDS or SERIES_FIELDS names each. See docs/records.md."`
	OnlyIf        string   `env:"ONLY_IF" doc:"Condition in CEL over a record's fields, as quality in [\"GOOD\", \"UNCERTAIN\"]. A record for which it is false is left out and counted. See docs/records.md."`
	ReadingsField string   `env:"READINGS_FIELD" doc:"Field path of an array of readings, each with its own time and values. See docs/records.md."`
	Missing       string   `env:"MISSING" envDefault:"skip" oneof:"skip|hold" doc:"A sample with a null or NaN value: skip leaves it out (zscore only the missing values), hold repeats the series' last value and marks the score as imputed."`
	Tombstones    string   `env:"TOMBSTONES" envDefault:"dead_letter" oneof:"dead_letter|skip" doc:"A record without a value: a dead letter, or left out and counted."`
	TextValues    string   `env:"TEXT_VALUES" envDefault:"dead_letter" oneof:"dead_letter|number" doc:"A value that is a text: a dead letter, or the number that it writes, as \"21.5\"; an empty one is missing."`
	Duplicates    string   `env:"DUPLICATES" envDefault:"keep" oneof:"keep|drop" doc:"A sample with the series key and event time of an earlier one: keep it, or drop it."`
	StopAbove     string   `env:"STOP_ABOVE" envDefault:"off" doc:"Pauses a partition before too many records become dead letters: 0.5/1000 is more than half of 1000. See docs/operations/dead-letters.md."`
}

type keySettings struct {
	Lateness   time.Duration `env:"LATENESS" mapping:"true" envDefault:"0s" min:"0s" max:"168h" doc:"Samples are held and put into order of event time; those further than this behind the newest are late. 0: none are held, and a sample older than the newest of its series is late."`
	LatenessBy string        `env:"LATENESS_BY" mapping:"true" derived:"series; partition with GRID, GROUP_BY or EMPTY=zero" oneof:"|series|partition" doc:"Whether LATENESS counts from the newest sample of the series, so that a wrong clock makes no other series late, or of the partition."`
	IdleAfter  time.Duration `env:"IDLE_AFTER" mapping:"true" envDefault:"0s" min:"0s" max:"168h" doc:"The watermark of a partition without a record for this long goes on by the wall clock. 0: only records move it. See docs/operations/event-times.md."`
	Every      time.Duration `env:"EVERY" mapping:"true" envDefault:"0s" min:"0s" max:"8784h" doc:"The records of a series in an interval of this length, in event time, become one sample. 0: each record is one. See docs/records.md."`
	Aggregate  []string      `env:"AGGREGATE" mapping:"true" envDefault:"mean" doc:"What the values of an interval become: {aggregates}. bytes=sum is for one field."`
	Empty      string        `env:"EMPTY" mapping:"true" envDefault:"missing" oneof:"missing|zero" doc:"What an interval without values becomes: a missing sample, or with zero a count and sum of 0."`
	MaxGap     string        `env:"MAX_GAP" mapping:"true" envDefault:"auto" example:"15m" doc:"The longest interval without a sample that a score of several successive samples may span, such as 15m; above it there is no score. auto: ten times the 0.99 quantile of the series' intervals; none: any."`
	MaxHeld    int           `env:"MAX_HELD" mapping:"true" derived:"as many as 16 MiB hold: 349525 samples of one value" min:"1" max:"100000000" doc:"Most samples (with READINGS_FIELD records) of a partition that LATENESS holds. A sample is released early when the log is this many offsets past it."`
	TTL        time.Duration `env:"TTL" mapping:"true" envDefault:"0s" min:"0s" doc:"A series without a sample for this long, in event time, is forgotten. 0: never."`
	Bytes      ByteSize      `env:"STATE_BYTES" derived:"60 % of the memory limit" min:"0" doc:"Memory for the state of the worker's partitions. Over its share a partition evicts its least recently used series. 0: no limit. See docs/operations/scale.md."`
	MaxKeys    int           `env:"MAX_KEYS" mapping:"true" envDefault:"1000000" min:"0" doc:"Most series of a partition; one more evicts the least recently used. 0: no limit."`
	MaxFuture  time.Duration `env:"MAX_FUTURE" mapping:"true" envDefault:"1h" min:"0s" doc:"A record whose event time is further than this ahead of its Kafka timestamp is a dead letter. 0: no limit."`
	MaxJump    time.Duration `env:"MAX_JUMP" mapping:"true" derived:"24h; less with LATENESS, SILENCE or TTL" min:"0s" doc:"A record whose event time is further than this past its partition's newest is a dead letter unless two of the next three agree. 0: no limit. See docs/operations/event-times.md."`
}

type detectSettings struct {
	Anomalies   bool          `env:"ANOMALIES" envDefault:"true" doc:"Publish anomalies."`
	Blocks      bool          `env:"BLOCKS" envDefault:"true" doc:"Compute and publish results of whole windows, such as the heatmaps of op discords, of up to 256 KiB each."`
	Feedback    string        `env:"FEEDBACK_TOPIC" derived:"<group>-feedback" doc:"Compacted topic of mutes and labels. off: none is read."`
	LearnFrom   int           `env:"LEARN_FROM" envDefault:"3" min:"0" max:"100" doc:"Labels of false alarms of a kind that mark later anomalies like them. 0: labels teach nothing. See docs/operations/labels.md."`
	Silence     time.Duration `env:"SILENCE" mapping:"true" envDefault:"0s" min:"0s" doc:"A series without a sample for this long, in event time of its partition, is an anomaly of the detector silence, even if no detector reads it. If all series of a partition may stop, set IDLE_AFTER. 0: off."`
	GroupBy     string        `env:"GROUP_BY" doc:"Regular expression (RE2) of the series key. Anomalies that open together, of series with equal matches (or texts in its parentheses), are a group; ^[^/]+ matches the text before the first /. See docs/outputs.md."`
	GroupWindow time.Duration `env:"GROUP_WINDOW" envDefault:"1m" min:"0s" max:"8760h" doc:"Most event time between the openings of a group's first anomaly and of another one."`
	Preset      string        `env:"PRESET" derived:"default; none with ODRADEK_DETECTORS" oneof:"|{presets}" doc:"Detectors to run without DETECTORS, as listed below. Settings of one of them override the preset's."`
	Sensitivity string        `env:"SENSITIVITY" live:"true" envDefault:"normal" oneof:"low|normal|high" doc:"How easily the detectors of PRESET report: low has about half of normal's false anomalies and misses more, high two to three times as many. It changes the preset's thresholds, not those that are set. See docs/quality.md."`
	Names       []string      `env:"DETECTORS" mapping:"true" derived:"from ODRADEK_PRESET" doc:"Names of the detectors, if the settings file has none."`
}

type outputSettings struct {
	Scores       string   `env:"SCORES" live:"true" envDefault:"all" oneof:"all|anomalous|none" doc:"Scores to publish: all, those above their detector's threshold, or none."`
	ScoresFormat string   `env:"SCORES_FORMAT" envDefault:"records" oneof:"records|runs" doc:"records: one record for each score. runs: one for up to 64 scores of a series and detector that are committed together, for fleets: a fifth of the bytes. See docs/outputs.md."`
	Format       string   `env:"OUTPUT_FORMAT" derived:"json if the records need no registry and there is none, else avro" oneof:"|avro|json" doc:"Format of scores, anomalies and feedback, with the same fields in both. A group that changes it needs new topics. See docs/outputs.md."`
	CarryHeaders []string `env:"CARRY_HEADERS" doc:"Headers that anomalies, and scores but those in runs, take from their source record, such as traceparent,x-site. See docs/outputs.md."`
	// Topics are the names of the output topics; the tags of their settings are in the table cycle.Outputs.
	Topics          cycle.TopicNames
	ChangelogPrefix string   `env:"CHANGELOG_PREFIX" derived:"<group>; <group>- if that has a '-' in it" doc:"Prefix of <prefix>-<topic>-changelog, the compacted topic with the state of an input topic, for this group alone."`
	CreateTopics    bool     `env:"CREATE_TOPICS" envDefault:"true" doc:"Create missing output and changelog topics. If false, a missing one stops the start."`
	Replication     int      `env:"REPLICATION" envDefault:"-1" min:"-1" max:"32767" doc:"Replication factor of created topics; -1: the brokers' default."`
	Partitions      int      `env:"PARTITIONS" envDefault:"0" min:"0" max:"100000" doc:"Partitions of created output topics; 0: as many as the input topic with the most. Changelogs have as many as their input topic."`
	Compression     string   `env:"COMPRESSION" envDefault:"none" oneof:"none|snappy|lz4|zstd|gzip" doc:"Compression of what is produced."`
	MaxMessage      ByteSize `env:"MAX_MESSAGE_BYTES" envDefault:"1000000" min:"1024" max:"1GiB" doc:"Largest batch sent; at most the topics' max.message.bytes."`
}

type cycleSettings struct {
	Guarantee          string        `env:"GUARANTEE" envDefault:"exactly_once" oneof:"exactly_once|at_least_once" doc:"exactly_once writes outputs, state and offsets in one transaction. With at_least_once some outputs come twice after a crash, with the same ids and content."`
	TransactionTimeout time.Duration `env:"TRANSACTION_TIMEOUT" envDefault:"30s" min:"1s" max:"15m" doc:"Brokers abort a transaction that is open for longer. At most the session timeout."`
	CommitInterval     time.Duration `env:"COMMIT_INTERVAL" derived:"50ms; 5ms with at_least_once" min:"0s" max:"1m" doc:"Least time from one commit to the next. With 0, or 4 MiB to commit, the next begins as soon as the last is done."`
	ReplayLimit        time.Duration `env:"REPLAY_LIMIT" envDefault:"30s" min:"100ms" max:"24h" doc:"Most input that a restart reads again, as a time at the present rate. Less means more state written in each cycle. Input topics must keep records for much longer."`
	StateLost          string        `env:"STATE_LOST" envDefault:"fail" oneof:"fail|reset" doc:"If state cannot be rebuilt, such as when retention has deleted the input to replay: fail stops the worker (exit code 4), reset continues with empty state."`
	StateMismatch      string        `env:"STATE_MISMATCH" envDefault:"stop" oneof:"stop|reset" doc:"If stored state was made with another mapping or other detector parameters: stop ends the worker (exit code 4), reset empties only what the change affects."`
	Rekey              bool          `env:"REKEY" envDefault:"false" doc:"Copy the input to an internal topic keyed by series, and score that, if a series has records in several partitions. Needs LATENESS above 0. See docs/operations/scale.md."`
}

type fetchSettings struct {
	PartitionBytes ByteSize `env:"PARTITION_BYTES" envDefault:"1MiB" min:"16KiB" max:"1GiB" doc:"Most bytes of one partition in a fetch response; twice this much is buffered per partition."`
	Workers        int      `env:"WORKERS" envDefault:"0" min:"0" max:"4096" doc:"Goroutines that score; 0: one per CPU (GOMAXPROCS)."`
	Executor       string   `env:"EXECUTOR" envDefault:"auto" oneof:"auto|cpu|cuda" doc:"What scores. auto takes a usable GPU, else the CPU; cuda does not start without a GPU."`
}

type gpuSettings struct {
	Child    string        `env:"CHILD" derived:"odradek-cuda beside the worker" doc:"Program that uses the GPU, in a process of its own."`
	Devices  []string      `env:"DEVICES" envDefault:"0" doc:"Indices of the GPUs to use."`
	Memory   ByteSize      `env:"MEMORY" envDefault:"1GiB" min:"16MiB" max:"1024GiB" doc:"Most locked memory for batches. The CPU scores batches that find none left."`
	Fallback string        `env:"FALLBACK" envDefault:"cpu" oneof:"cpu|wait" doc:"While a GPU is out of service: cpu scores on the CPU, where scores differ within the op's tolerance; with wait batches wait. See docs/operations/gpu.md."`
	Deadline time.Duration `env:"DEADLINE" envDefault:"2s" min:"10ms" max:"5m" doc:"Least time that a batch may take on the GPU; large ones get more. A child that overruns it is started again."`
}

type programSettings struct {
	HTTPAddr     string        `env:"HTTP_ADDR" envDefault:":9464" doc:"Address of /metrics, /healthz and /readyz; off: none."`
	PageAddr     string        `env:"PAGE_ADDR" derived:"ODRADEK_HTTP_ADDR where that is a loopback address, else 127.0.0.1 and the port after that one's" doc:"Address of the page and the JSON API; off: none. If other hosts reach it, set PAGE_TOKEN or PAGE_TLS_CLIENT_CA_FILE. See docs/api.md."`
	PageToken    Secret        `env:"PAGE_TOKEN" doc:"Token of the JSON API: Authorization: Bearer <token>; the page asks for it. Without a token or client certificates everybody who reaches the address may read, and nobody may mute or label."`
	PageHosts    []string      `env:"PAGE_HOSTS" doc:"Host names that the page answers to without a token, beside localhost and addresses; * allows all."`
	PageCert     string        `env:"PAGE_TLS_CERT_FILE" doc:"PEM file of the page's certificate; turns TLS on. Read again when it changes."`
	PageKey      string        `env:"PAGE_TLS_KEY_FILE" doc:"PEM file of the certificate's key."`
	PageClientCA string        `env:"PAGE_TLS_CLIENT_CA_FILE" doc:"PEM file of certificate authorities. Each client of the page then needs a certificate of theirs, and no token."`
	PprofAddr    string        `env:"PPROF_ADDR" envDefault:"off" doc:"Address of /debug/pprof, loopback only, such as 127.0.0.1:6060."`
	ConfigFile   string        `env:"CONFIG" doc:"Settings file in YAML, as above."`
	LogLevel     string        `env:"LOG_LEVEL" live:"true" envDefault:"info" oneof:"debug|info|warn|error" doc:"Least level that is logged."`
	LogFormat    string        `env:"LOG_FORMAT" envDefault:"text" oneof:"text|json" doc:"Format of the log on standard error."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"25s" min:"1s" max:"1h" doc:"Time after SIGTERM to finish the cycle, commit and leave the group. Keep it below the orchestrator's grace period."`
}

// Fault is one fault of the configuration.
type Fault struct {
	Name    string `json:"name"`    // the setting's full name; empty for a fault of several
	Problem string `json:"problem"` // never has a secret's value
	Fix     string `json:"fix,omitempty"`
	At      string `json:"at,omitempty"` // file:line of the settings file where that has it
}

func (f Fault) String() string {
	s := f.Problem
	if f.Name != "" {
		s = f.Name + ": " + s
	}
	if f.At != "" {
		s = f.At + ": " + s
	}
	if f.Fix != "" {
		s += "; " + f.Fix
	}
	if f.At != "" { // the user knows the names of the file
		return s
	}
	return WithVariables(s)
}

// keyRE matches what may be a setting's name in a settings file, and the value after it.
var keyRE = regexp.MustCompile(`(^|[\s"'(,;])([a-z]+(?:_[a-z]+)*)(=[a-z_]+)?\b`)

// variables are the variables of the general settings by their names in a settings file.
var variables = sync.OnceValue(func() map[string]setting {
	known := map[string]setting{}
	for _, s := range collect(reflect.ValueOf(new(Config)).Elem(), Prefix, "") {
		known[strings.ToLower(strings.TrimPrefix(s.name, Prefix))] = s
	}
	return known
})

// WithVariables returns a message with the settings' variables in place of their names in a settings file, by which packages outside
// of cmd know them. A name of one word is one only before one of its values, as in missing=skip.
func WithVariables(message string) string {
	return keyRE.ReplaceAllStringFunc(message, func(match string) string {
		m := keyRE.FindStringSubmatch(match)
		s, known := variables()[m[2]]
		value := strings.TrimPrefix(m[3], "=")
		if !known || !strings.Contains(m[2], "_") && (value == "" || !slices.Contains(strings.Split(allowed(&s), "|"), value)) {
			return match
		}
		return m[1] + s.name + m[3]
	})
}

// allowed returns the words that a setting takes, with | between them.
func allowed(s *setting) string {
	if s.field.Kind() == reflect.Bool {
		return "true|false"
	}
	return s.tag.Get("oneof")
}

// detectorSection begins the section of the settings of a detector.
const detectorSection = "Detector "

// setting is one variable as configured.
type setting struct {
	section string
	name    string // with all prefixes
	value   string // effective, secrets hidden
	def     string // the default, "" where there is none
	source  string // "env", "file" (of a secret), file:line of the settings file, "preset" or "default"
	secret  bool
	kept    string // the file of a secret, "" for none
	tag     reflect.StructTag
	field   reflect.Value
}

// OutputTopics returns the names of the topics that are written with these settings.
func (c *Config) OutputTopics() cycle.TopicNames {
	names := c.Output.Topics
	for o, used := range map[cycle.Output]bool{
		cycle.Scores:          c.Output.Scores != "none",
		cycle.Anomalies:       c.Anomalies(),
		cycle.ShadowAnomalies: c.Shadow(),
		cycle.Blocks:          c.Blocks(),
		cycle.Rekeyed:         c.Cycle.Rekey,
	} {
		if !used {
			names[o] = ""
		}
	}
	return names
}

// trim removes the spaces and empty items of lists written by hand.
func (c *Config) trim() {
	for _, l := range []*[]string{&c.Kafka.Brokers, &c.Group.Topics, &c.Registry.URLs, &c.Mapping.ValueFields, &c.Mapping.SeriesFields,
		&c.Mapping.Units, &c.Mapping.Valid, &c.Mapping.MissingIf, &c.Mapping.Decimals, &c.Mapping.Transform, &c.Keys.Aggregate,
		&c.Detect.Names, &c.GPU.Devices} {
		*l = cleanList(*l)
	}
}

func cleanList(l []string) []string {
	out := make([]string, 0, len(l))
	for _, s := range l {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// isDefault reports whether the setting of that name, without prefix, is not set.
func (c *Config) isDefault(name string) bool {
	return slices.ContainsFunc(c.settings, func(s setting) bool { return s.name == Prefix+name && s.source == "default" })
}

// pageAddr returns the default address of the status page, on loopback because it shows names
// of series.
func pageAddr(http string) string {
	if http == Off || loopback(http) {
		return http
	}
	_, port, err := net.SplitHostPort(http)
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || n >= 65535 {
		return Off // HTTP_ADDR is a fault, or has no port after its own
	}
	return fmt.Sprintf("127.0.0.1:%d", n+1)
}

// derive sets the defaults that depend on other settings.
func (c *Config) derive() {
	g, o := c.Group.Group, &c.Output
	set := func(p *string, v string) {
		if *p == "" && g != "" {
			*p = v
		}
	}
	for i := range cycle.Outputs {
		set(&o.Topics[i], g+"-"+cycle.Outputs[i].Name)
	}
	set(&o.ChangelogPrefix, ChangelogPrefix(g))
	set(&c.Detect.Feedback, g+"-feedback")
	if c.Program.PageAddr == "" {
		c.Program.PageAddr = pageAddr(c.Program.HTTPAddr)
	}
	if c.isDefault("COMMIT_INTERVAL") {
		c.Cycle.CommitInterval = 50 * time.Millisecond
		if c.Cycle.Guarantee == "at_least_once" {
			c.Cycle.CommitInterval = 5 * time.Millisecond
		}
	}
	if c.Keys.Bytes == 0 && c.isDefault("STATE_BYTES") {
		c.Keys.Bytes = ByteSize(MemoryLimit() / 5 * 3)
	}
	if c.Keys.MaxHeld == 0 && c.isDefault("MAX_HELD") {
		c.Keys.MaxHeld = state.DefaultMaxHeld(c.SchemaMapping().Width())
		if c.HasReadings() || c.HasWildcard() {
			c.Keys.MaxHeld = max(1, c.Keys.MaxHeld/readingsHeld)
		}
	}
	c.deriveMaxJump()
	if m := &c.Mapping; m.Format == "otlp" && c.isDefault("TRANSFORM") &&
		slices.Contains(slices.Concat(m.ValueFields, m.SeriesFields), "counter") {
		m.Transform = []string{"counter=rate"}
	}
	if c.Keys.LatenessBy == "" {
		c.Keys.LatenessBy = bySeries
		if c.oneClock() != "" || c.Keys.Every > 0 && c.Keys.Empty == "zero" { // zeros of a series that is quiet, too
			c.Keys.LatenessBy = byPartition
		}
	}
	for i := range c.Detectors {
		d := &c.Detectors[i]
		d.Fields = cleanList(d.Fields)
		if len(d.Fields) == 0 {
			d.Fields = slices.Clone(c.Mapping.ValueFields)
		}
		c.deriveDetector(d)
		c.deriveAlarm(d)
		for i, f := range d.Fields { // accel stands for accel[3], so that both have one fingerprint
			for _, v := range c.Mapping.ValueFields {
				if f == arrayLengthRE.ReplaceAllString(v, "") {
					d.Fields[i] = v
				}
			}
		}
	}
}

// deriveMaxJump sets the default of MAX_JUMP, which is larger where a watermark too far ahead
// does less harm. With a lateness or a silence a record that far ahead makes others late, or
// silent, for as long; with a TTL it evicts series that were quiet for the rest of it.
func (c *Config) deriveMaxJump() {
	if !c.isDefault("MAX_JUMP") {
		return
	}
	k, least := &c.Keys, 10*time.Minute
	k.MaxJump = 24 * time.Hour
	silence := time.Duration(0)
	if c.Detect.Anomalies {
		silence = c.Detect.Silence
	}
	if delay := max(k.Lateness, silence); delay > 0 {
		k.MaxJump = max(least, 10*delay)
	}
	if k.TTL > 0 {
		k.MaxJump = min(k.MaxJump, max(least, k.TTL/2))
	}
}

var arrayLengthRE = regexp.MustCompile(`\[\d+\]`)

// fill sets the settings' values for printing, secrets hidden.
func (c *Config) fill() {
	for i := range c.settings {
		s := &c.settings[i]
		s.value = formatValue(s.field)
		if s.tag.Get("url") != "" {
			s.value = RedactURLs(s.value)
		}
	}
	for i := range c.Detectors {
		for _, name := range slices.Concat(memberSettings, sumSettings) {
			if d := &c.Detectors[i]; d.isAny() || d.isEnsemble() && !slices.Contains(sumSettings, name) {
				c.settings[slices.IndexFunc(c.settings, func(s setting) bool { return s.name == DetectorPrefix(d.Name)+name })].value = ""
			}
		}
	}
}

func formatValue(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case []string:
		return strings.Join(x, ",")
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case fmt.Stringer: // durations, sizes, secrets
		return x.String()
	default:
		return fmt.Sprint(x)
	}
}

// collectParams lists an op's own parameters.
func collectParams(params any, pre string) []setting {
	if params == nil {
		return nil
	}
	return collect(reflect.ValueOf(params).Elem(), pre, "")
}
