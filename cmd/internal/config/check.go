package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/state/rules"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// checker collects the faults of a configuration.
type checker struct {
	c      *Config
	faults []Fault
	bad    map[string]bool // settings with a fault: follow-up faults are not reported
}

// validate adds the faults of values to the faults of parsing, in the order of
// the settings.
func (c *Config) validate(faults []Fault) []Fault {
	k := &checker{c: c, faults: faults, bad: map[string]bool{}}
	for _, f := range faults {
		k.bad[strings.TrimSuffix(f.Name, fileSuffix)] = true
	}
	k.limits()
	k.kafka()
	k.group()
	k.registry()
	k.mapping()
	k.stop()
	k.detectors()
	k.topics()
	k.cycle()
	k.program()
	c.sort(k.faults)
	return k.faults
}

// sort puts faults into the order of the settings.
func (c *Config) sort(faults []Fault) {
	order := map[string]int{}
	for i, s := range c.settings {
		order[s.name] = i - len(c.settings)
		order[s.name+fileSuffix] = i - len(c.settings)
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return order[a.Name] - order[b.Name] })
}

// add records a fault of the setting called name without its prefix.
func (ch *checker) add(name, problem, fix string) {
	name = Prefix + name
	if ch.bad[name] {
		return
	}
	ch.bad[name] = true
	ch.faults = append(ch.faults, Fault{Name: name, Problem: problem, Fix: fix})
}

// addAll records the problems of a list's items as one fault.
func (ch *checker) addAll(name string, problems []string, fix string) {
	if len(problems) > 0 {
		ch.add(name, strings.Join(problems, ", "), fix)
	}
}

// ok reports that none of the settings has a fault.
func (ch *checker) ok(names ...string) bool {
	for _, n := range names {
		if ch.bad[Prefix+n] {
			return false
		}
	}
	return true
}

// limits checks every setting against its tags oneof, min and max.
func (ch *checker) limits() {
	for _, s := range ch.c.settings {
		if strings.HasPrefix(s.section, mappingSection) { // checked with the mapping
			continue
		}
		short := strings.TrimPrefix(s.name, Prefix)
		if allowed := s.tag.Get("oneof"); allowed != "" {
			if v := s.field.String(); !slices.Contains(strings.Split(allowed, "|"), v) {
				ch.add(short, fmt.Sprintf("%q is not one of the values", v), "use "+strings.ReplaceAll(strings.TrimPrefix(allowed, "|"), "|", ", "))
			}
		}
		v, ok := number(s.field)
		if !ok {
			continue
		}
		if v-v != 0 { // a NaN is neither below a limit nor above
			ch.add(short, formatValue(s.field)+" is not a finite number", "")
			continue
		}
		if lo := s.tag.Get("min"); lo != "" && v < limit(s.field, lo) {
			ch.add(short, formatValue(s.field)+" is too small", "use at least "+lo)
		}
		if hi := s.tag.Get("max"); hi != "" && v > limit(s.field, hi) {
			ch.add(short, formatValue(s.field)+" is too large", "use at most "+hi)
		}
	}
}

func number(v reflect.Value) (float64, bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return 0, false
		}
		v = v.Elem()
	}
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// limit reads a limit tag in the terms of the field's type. A tag that cannot be
// read is a fault of this program, which tests find.
func limit(v reflect.Value, tag string) float64 {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(tag)
		if err != nil {
			panic(err)
		}
		return float64(d)
	}
	if v.Type() == reflect.TypeFor[ByteSize]() {
		var s ByteSize
		if err := s.UnmarshalText([]byte(tag)); err != nil {
			panic(err)
		}
		return float64(s)
	}
	f, err := strconv.ParseFloat(tag, 64)
	if err != nil {
		panic(err)
	}
	return f
}

func (ch *checker) kafka() {
	s := &ch.c.Kafka
	if len(s.Brokers) == 0 {
		ch.add("KAFKA_BROKERS", "no broker named", "set it to host:port, several separated by commas")
	}
	var problems []string
	for _, b := range s.Brokers {
		if why := hostPortFault(b); why != "" {
			problems = append(problems, fmt.Sprintf("%q %s", b, why))
		}
	}
	ch.addAll("KAFKA_BROKERS", problems, "write host:port")
	if !s.TLS {
		for _, f := range []struct {
			name string
			set  bool
		}{{"TLS_CA_FILE", s.TLSCAFile != ""}, {"TLS_CERT_FILE", s.TLSCertFile != ""}, {"TLS_KEY_FILE", s.TLSKeyFile != ""},
			{"TLS_SERVER_NAME", s.TLSServerName != ""}, {"TLS_INSECURE", s.TLSInsecure}} {
			if f.set && ch.ok("KAFKA_TLS") {
				ch.add("KAFKA_"+f.name, "set, but "+Prefix+"KAFKA_TLS is false", "set "+Prefix+"KAFKA_TLS=true or remove it")
			}
		}
	}
	switch {
	case s.TLSCertFile != "" && s.TLSKeyFile == "":
		ch.add("KAFKA_TLS_KEY_FILE", "not set, but "+Prefix+"KAFKA_TLS_CERT_FILE is", "set both for mutual TLS")
	case s.TLSCertFile == "" && s.TLSKeyFile != "":
		ch.add("KAFKA_TLS_CERT_FILE", "not set, but "+Prefix+"KAFKA_TLS_KEY_FILE is", "set both for mutual TLS")
	}
	if s.TLS && ch.ok("KAFKA_TLS_CA_FILE", "KAFKA_TLS_CERT_FILE", "KAFKA_TLS_KEY_FILE") {
		ch.faults = append(ch.faults, s.tlsFaults()...)
	}
	ch.sasl()
}

// sasl checks the settings of the login at brokers.
func (ch *checker) sasl() {
	s := &ch.c.Kafka
	const mechanisms = "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
	isOAuth, isAWS, token := s.SASLMechanism == oauthBearer, s.SASLMechanism == awsMSK, s.OAuthToken.Reveal() != ""
	only := func(is, set bool, name, mechanism string) {
		if set && !is && ch.ok("KAFKA_SASL_MECHANISM") {
			ch.add(name, "set, but "+Prefix+"KAFKA_SASL_MECHANISM is not "+mechanism, "set that, or unset this")
		}
	}
	only(isAWS, s.AWSRegion != "", "KAFKA_AWS_REGION", awsMSK)
	only(isOAuth, token, "KAFKA_OAUTH_TOKEN", oauthBearer)
	only(isOAuth, len(s.Extensions) > 0, "KAFKA_OAUTH_EXTENSIONS", oauthBearer)
	only(isOAuth, s.OAuth != oauthSettings{}, "KAFKA_OAUTH_TOKEN_URL", oauthBearer)
	for _, e := range s.Extensions {
		if !extensionRE.MatchString(e) {
			ch.add("KAFKA_OAUTH_EXTENSIONS", fmt.Sprintf("%q is not a name of letters, = and a value", e), "write it like logicalCluster=lkc-1")
		}
	}
	switch {
	case isOAuth && token && s.OAuth != oauthSettings{}:
		ch.add("KAFKA_OAUTH_TOKEN", "set together with "+Prefix+"KAFKA_OAUTH_TOKEN_URL", "keep one of them")
	case isOAuth:
		ch.oauth(&s.OAuth, "KAFKA_OAUTH_", !token)
	}
	switch {
	case isOAuth || isAWS:
		if s.Username != "" || s.Password.Reveal() != "" {
			ch.add("KAFKA_USERNAME", "a user name or password is set, but "+Prefix+"KAFKA_SASL_MECHANISM is "+s.SASLMechanism, "unset them")
		}
	case s.SASLMechanism == "" && s.Username != "":
		ch.add("KAFKA_SASL_MECHANISM", "not set, but "+Prefix+"KAFKA_USERNAME is", mechanisms)
	case s.SASLMechanism == "" && s.Password.Reveal() != "":
		ch.add("KAFKA_SASL_MECHANISM", "not set, but "+Prefix+"KAFKA_PASSWORD is", mechanisms)
	case s.SASLMechanism != "":
		if s.Username == "" {
			ch.add("KAFKA_USERNAME", "not set, but "+Prefix+"KAFKA_SASL_MECHANISM is", "")
		}
		if s.Password.Reveal() == "" {
			ch.add("KAFKA_PASSWORD", "not set, but "+Prefix+"KAFKA_SASL_MECHANISM is", "set it or "+Prefix+"KAFKA_PASSWORD_FILE")
		}
	}
}

// extensionRE is a SASL extension (RFC 7628, section 3.1): a name and printable characters.
var extensionRE = regexp.MustCompile(`^[A-Za-z]+=[\x20-\x7e]+$`)

func hostPortFault(s string) string {
	host, port, err := net.SplitHostPort(s)
	n, notNumber := strconv.Atoi(port)
	switch {
	case err != nil:
		return "is not host:port"
	case notNumber != nil || n < 1 || n > 65535:
		return "has no port from 1 to 65535"
	case host == "":
		return "has no host"
	}
	return ""
}

func (ch *checker) group() {
	s := &ch.c.Group
	if s.Group == "" {
		ch.add("GROUP", "not set", "name the consumer group")
	}
	if len(s.Topics) == 0 {
		ch.add("TOPICS", "not set", "name the input topics, separated by commas")
	}
	problems := twice(s.Topics)
	for _, t := range s.Topics {
		if why := TopicFault(literal(t)); why != "" {
			problems = append(problems, fmt.Sprintf("%q %s", t, why))
		}
	}
	ch.addAll("TOPICS", problems, "")
	switch s.Start {
	case "earliest", "latest":
	default:
		if _, err := time.Parse(time.RFC3339Nano, s.Start); err != nil {
			ch.add("START", fmt.Sprintf("%q is neither earliest, latest nor a time", s.Start), "write a time like 2026-01-31T08:00:00Z")
		}
	}
	switch {
	case s.WarmupFrom <= 0:
	case s.Start == "earliest":
		ch.add("WARMUP_FROM", "a partition that begins with its earliest record has nothing before its start",
			"set "+Prefix+"START=latest or a time, or unset it")
	case ch.c.Cycle.Rekey:
		ch.add("WARMUP_FROM",
			"the state is in the partitions of the internal topic of "+Prefix+"REKEY, to which nothing was sent before the start",
			"unset one of them")
	}
}

// twice returns the items that a list has more than once.
func twice(list []string) (problems []string) {
	for i, item := range list {
		if slices.Index(list, item) < i {
			problems = append(problems, fmt.Sprintf("%q is named twice", item))
		}
	}
	return problems
}

var topicRE = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// TopicFault returns why a name is not a legal topic name, to stand after the name in a
// message; "" if it is one.
func TopicFault(name string) string {
	switch {
	case name == "." || name == "..":
		return "is not a topic name"
	case len(name) > 249:
		return "is too long for a topic name (249 bytes)"
	case !topicRE.MatchString(name):
		return "has a character that topic names may not have; letters, digits, '.', '_' and '-' are allowed"
	}
	return ""
}

func (ch *checker) registry() {
	s, m := &ch.c.Registry, &ch.c.Mapping
	var problems []string
	for _, u := range s.URLs {
		p, err := url.Parse(u)
		if err != nil || p.Host == "" || p.Scheme != "http" && p.Scheme != "https" {
			problems = append(problems, fmt.Sprintf("%q is not an http or https URL", RedactURLs(u)))
		}
	}
	ch.addAll("SCHEMA_REGISTRY_URL", problems, "write it like https://registry:8081")
	if (s.Username == "") != (s.Password.Reveal() == "") {
		missing, have := "PASSWORD", "USERNAME"
		if s.Username == "" {
			missing, have = have, missing
		}
		ch.add("SCHEMA_REGISTRY_"+missing, "not set, but "+Prefix+"SCHEMA_REGISTRY_"+have+" is", "")
	}
	if s.glueRegion() != "" && (len(s.URLs) > 1 || s.Username != "" || s.Token.Reveal() != "" || s.OAuth != oauthSettings{}) {
		ch.add("SCHEMA_REGISTRY_URL", "AWS Glue's, with other URLs or a login", "name one endpoint; the AWS SDK logs in")
	}
	if s.Token.Reveal() != "" && s.Username != "" {
		ch.add("SCHEMA_REGISTRY_TOKEN", "set together with "+Prefix+"SCHEMA_REGISTRY_USERNAME", "keep one of them")
	}
	ch.oauth(&s.OAuth, "SCHEMA_REGISTRY_OAUTH_", false)
	tokens := s.OAuth != oauthSettings{}
	if tokens && (s.Token.Reveal() != "" || s.Username != "") {
		ch.add("SCHEMA_REGISTRY_OAUTH_TOKEN_URL", "set together with a user name or a token", "keep one of them")
	}
	if (s.Cluster != "" || s.Pool != "") && !tokens && s.Token.Reveal() == "" {
		ch.add("SCHEMA_REGISTRY_LOGICAL_CLUSTER", "set, or the identity pool, but no token", "set "+Prefix+"SCHEMA_REGISTRY_OAUTH_TOKEN_URL")
	}
	if s.CAFile != "" {
		if err := caFault(s.CAFile); err != nil {
			ch.add("SCHEMA_REGISTRY_CA_FILE", err.Error(), "")
		}
	}
	if s.CertFile != "" || s.KeyFile != "" {
		if _, err := kafka.NewTLS(kafka.TLSConfig{Settings: registryTLS, Cert: s.CertFile, Key: s.KeyFile}); err != nil {
			ch.add("SCHEMA_REGISTRY_CERT_FILE", strings.TrimPrefix(err.Error(), "kafka: "),
				"name a certificate and its key that the worker may read")
		}
	}
	if m.SchemaFile != "" {
		text, err := os.ReadFile(m.SchemaFile)
		switch {
		case formats.Fixed(m.Format):
			ch.add("SCHEMA_FILE", "set, but records in "+formats.Title(m.Format)+" have no schema", "unset it")
		case err != nil:
			ch.add("SCHEMA_FILE", err.Error(), "name a file that the worker may read")
		case ch.c.RecordMapping().Validate() == nil:
			var problems []string
			for _, err := range formats.CheckFile(m.Format, ch.c.RecordMapping(), string(text)) {
				problems = append(problems, strings.TrimPrefix(err.Error(), "schemas: "))
			}
			ch.addAll("SCHEMA_FILE", problems, "")
		}
	} else if len(s.URLs) == 0 && !formats.Plain(m.Format) {
		ch.add("SCHEMA_FILE", "not set, nor "+Prefix+"SCHEMA_REGISTRY_URL", "Avro records cannot be read without a schema: set one of them, or "+
			Prefix+"FORMAT to the format of the records, as json")
	}
}

func (ch *checker) topics() {
	o := &ch.c.Output
	named := map[string]string{}
	for _, t := range ch.c.Group.Topics {
		named[t] = Prefix + "TOPICS"
	}
	check := func(setting, topic string) {
		if topic == "" {
			return
		}
		if why := TopicFault(topic); why != "" {
			ch.add(setting, fmt.Sprintf("%q %s", topic, why), "name the topic here; its default comes from "+Prefix+"GROUP")
		} else if other := named[topic]; other != "" {
			ch.add(setting, fmt.Sprintf("topic %q is %s already", topic, other), "give each its own topic")
		}
		named[topic] = Prefix + setting
	}
	for i, name := range ch.c.OutputTopics() {
		check(cycle.Outputs[i].Setting, name)
	}
	for _, t := range ch.c.Group.Topics {
		if ch.ok("TOPICS") && o.ChangelogPrefix != "" && !IsPattern(t) {
			check(cycle.ChangelogSpec.Setting, ch.c.ChangelogTopic(t))
		}
	}
	if ch.c.Detect.Feedback != Off {
		check("FEEDBACK_TOPIC", ch.c.Detect.Feedback)
	}
	for _, t := range ch.c.Group.Topics { // those that the settings above name are faults of these
		if ch.ok("TOPICS") && !IsPattern(t) && ch.c.writes(t) && named[t] == Prefix+"TOPICS" {
			ch.add("TOPICS", fmt.Sprintf("topic %q is one that the program writes for this group", t), "name topics of records to read")
		}
	}
	ch.carryHeaders()
	if o.Replication == 0 {
		ch.add("REPLICATION", "0 is not a replication factor", "use -1 for the brokers' default, or at least 1")
	}
}

// maxCarryHeaders bounds the headers that are carried.
const maxCarryHeaders = 32

func (ch *checker) carryHeaders() {
	names := ch.c.Output.CarryHeaders
	if len(names) > maxCarryHeaders {
		ch.add("CARRY_HEADERS", fmt.Sprintf("%d headers", len(names)), fmt.Sprintf("name at most %d", maxCarryHeaders))
	}
	for i, name := range names {
		switch {
		case name == "" || slices.Contains(names[:i], name):
			ch.add("CARRY_HEADERS", fmt.Sprintf("%q is empty or named twice", name), "name each header once")
		case name == "content-type":
			ch.add("CARRY_HEADERS", "content-type describes the value of the written record", "leave it out")
		}
	}
}

func (ch *checker) cycle() {
	s := &ch.c.Cycle
	if s.Guarantee == "exactly_once" && ch.ok("TRANSACTION_TIMEOUT", "COMMIT_INTERVAL", "SESSION_TIMEOUT") {
		if s.TransactionTimeout > ch.c.Group.SessionTimeout {
			ch.add("TRANSACTION_TIMEOUT", fmt.Sprintf("%v is more than the session timeout %v", s.TransactionTimeout, ch.c.Group.SessionTimeout),
				"lower it, or raise "+Prefix+"SESSION_TIMEOUT: a dead worker's open transaction holds its successor back")
		}
		if 2*s.CommitInterval > s.TransactionTimeout {
			ch.add("COMMIT_INTERVAL", fmt.Sprintf("%v is more than half of the transaction timeout %v", s.CommitInterval, s.TransactionTimeout), "")
		}
	}
	if ch.ok("COMMIT_INTERVAL", "REPLAY_LIMIT") && s.ReplayLimit < s.CommitInterval {
		ch.add("REPLAY_LIMIT", fmt.Sprintf("%v is less than the commit interval %v", s.ReplayLimit, s.CommitInterval),
			"state is written with commits: use several intervals")
	}
	if s.Rekey && ch.ok("LATENESS") && ch.c.Keys.Lateness == 0 {
		ch.add("REKEY", "true, but "+Prefix+"LATENESS is 0: the internal topic interleaves several source partitions, so a series' records come "+
			"out of order and many would be late",
			"set "+Prefix+"LATENESS to how far the source partitions may be apart in event time, for example 1m")
	}
	for i, d := range ch.c.GPU.Devices {
		if n, err := strconv.Atoi(d); err != nil || n < 0 || n > 255 {
			ch.add("CUDA_DEVICES", fmt.Sprintf("%q is not the index of a GPU", d), "write indices like 0,1")
		} else if slices.Contains(ch.c.GPU.Devices[:i], d) {
			ch.add("CUDA_DEVICES", fmt.Sprintf("GPU %s is there twice", d), "")
		}
	}
}

// Off is the value of an address or a folder that turns its feature off.
const Off = "off"

func (ch *checker) program() {
	s := &ch.c.Program
	if s.HTTPAddr != Off {
		if _, port, err := net.SplitHostPort(s.HTTPAddr); err != nil || port == "" {
			ch.add("HTTP_ADDR", fmt.Sprintf("%q is not an address", s.HTTPAddr), "write :9464 or 127.0.0.1:9464, or off")
		}
	}
	if s.PageAddr != Off {
		if _, port, err := net.SplitHostPort(s.PageAddr); err != nil || port == "" {
			ch.add("PAGE_ADDR", fmt.Sprintf("%q is not an address", s.PageAddr), "write 127.0.0.1:9465, or off")
		}
	}
	ch.page()
	if s.PprofAddr != Off && !loopback(s.PprofAddr) {
		ch.add("PPROF_ADDR", fmt.Sprintf("%q is not a loopback address", s.PprofAddr),
			"profiles show memory: use 127.0.0.1:6060 and reach it by a tunnel, or off")
	}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// mappingFaults says which setting a fault of a mapping is about, by how it begins; the first that fits counts. Others are
// about fields.
var mappingFaults = []struct{ begins, setting string }{
	{"key ", "KEY_FIELD"}, {"readings ", "READINGS_FIELD"}, {"valid ", "VALID"}, {"missing if ", "MISSING_IF"},
	{"decimals ", "DECIMALS"},
	{"only if ", "ONLY_IF"}, {"compute ", "COMPUTE"},
	{"time zone ", "TIME_ZONE"}, {"time layout ", "TIME_LAYOUT"}, {"time unit ", "TIME_UNIT"}, {"time ", "TIME_FIELD"},
}

func (ch *checker) mapping() {
	m := &ch.c.Mapping
	if len(m.ValueFields) == 0 {
		ch.add("VALUE_FIELDS", "no field named", "name the fields that hold a sample's values, separated by commas")
	}
	problems := map[string][]string{}
	fields := "VALUE_FIELDS"
	if len(m.SeriesFields) > 0 {
		fields = "SERIES_FIELDS"
		ch.seriesFields()
	} else if i := slices.IndexFunc(m.ValueFields, schemas.IsWildcard); i >= 0 {
		ch.add(fields, fmt.Sprintf("%q: the values of a sample are the same each time, the values of a wildcard are not", m.ValueFields[i]),
			"set "+Prefix+"SERIES_FIELDS in its place, which makes each number below the path a series")
		return
	}
	faults := unjoin(ch.c.RecordMapping().Validate())
	if len(faults) == 0 && formats.Fixed(m.Format) {
		faults = formats.CheckFile(m.Format, ch.c.RecordMapping(), "")
	}
	for _, err := range faults {
		text := strings.TrimPrefix(err.Error(), "schemas: ")
		name := fields
		for _, s := range mappingFaults {
			if strings.HasPrefix(text, s.begins) {
				name = s.setting
				break
			}
		}
		problems[name] = append(problems[name], text)
	}
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		ch.addAll(name, problems[name], "")
	}
	ch.units()
	ch.transforms()
	ch.aggregates()
	if len(problems) == 0 && ch.c.Cycle.Rekey && ch.c.RecordMapping().KeyInReadings() {
		ch.add("REKEY", "true, but "+Prefix+"KEY_FIELD is in the readings: a record may have several series, and is copied to one of them",
			"have the producers write each series to one partition")
	}
	if len(problems) == 0 && ch.c.Cycle.Rekey && ch.c.RecordMapping().KeyOfPartition() {
		ch.add("REKEY", "true, but "+Prefix+"KEY_FIELD has @partition, so that no series is in two partitions", "unset one of them")
	}
}

// wildcardOver returns a test of the fields that stand for each number below a path, of which leaf is one.
func wildcardOver(leaf string) func(field string) bool {
	return func(field string) bool { return schemas.WildcardHas(field, leaf) }
}

// units checks ODRADEK_UNITS.
func (ch *checker) units() {
	m, fields := &ch.c.Mapping, ch.c.RecordMapping().Fields
	var problems []string
	seen := map[string]bool{}
	for _, u := range m.Units {
		name, unit, ok := cutUnit(u)
		switch {
		case !ok || name == "" || unit == "":
			problems = append(problems, fmt.Sprintf("%q is not FIELD=UNIT", u))
		case seen[name]:
			problems = append(problems, fmt.Sprintf("field %q has two units", name))
		case len(unit) > mostUnit:
			problems = append(problems, fmt.Sprintf("the unit of field %q has more than %d bytes", name, mostUnit))
		case !slices.ContainsFunc(fields, func(f string) bool {
			return arrayLengthRE.ReplaceAllString(f, "") == name && !schemas.IsWildcard(f) || schemas.WildcardHas(f, name)
		}):
			problems = append(problems, fmt.Sprintf("no value has the field %q", name))
		}
		seen[name] = true
	}
	ch.addAll("UNITS", problems, "name fields of "+strings.Join(fields, ", ")+", as in temperature=°C")
}

// transforms checks ODRADEK_TRANSFORM.
func (ch *checker) transforms() {
	m, fields := &ch.c.Mapping, ch.c.RecordMapping().Fields
	var problems []string
	var seen []rules.FieldTransform
	for _, entry := range m.Transform {
		t, err := rules.ParseTransform(entry)
		switch {
		case err != nil:
			problems = append(problems, err.Error())
		case !slices.ContainsFunc(fields, t.About) && !slices.ContainsFunc(fields, wildcardOver(t.Field)):
			problems = append(problems, fmt.Sprintf("no value has the field %q", t.Field))
		case slices.ContainsFunc(seen, t.Same):
			problems = append(problems, fmt.Sprintf("field %q has two transforms", t.Field))
		}
		for i := range ch.c.Detectors {
			if d := &ch.c.Detectors[i]; err == nil && d.Grid.Span > 0 && slices.ContainsFunc(d.Fields, t.About) {
				problems = append(problems, fmt.Sprintf("field %q is a coordinate of the grid of detector %s", t.Field, d.Name))
			}
		}
		seen = append(seen, t)
	}
	ch.addAll("TRANSFORM", problems, "name fields of "+strings.Join(fields, ", ")+", as in bytes_total=rate")
}

// aggregates checks ODRADEK_EVERY and ODRADEK_AGGREGATE.
func (ch *checker) aggregates() {
	every, fields := ch.c.Keys.Every, ch.c.RecordMapping().Fields
	if every > 0 && every < time.Millisecond {
		ch.add("EVERY", every.String()+" is too short", "use 1ms or more; 0 makes each record a sample")
	}
	var problems []string
	var seen []rules.FieldAggregate
	for _, entry := range ch.c.Keys.Aggregate {
		a, err := rules.ParseAggregate(entry)
		switch {
		case err != nil:
			problems = append(problems, err.Error())
		case a.Field != "" && !slices.ContainsFunc(fields, a.About) && !slices.ContainsFunc(fields, wildcardOver(a.Field)):
			problems = append(problems, fmt.Sprintf("no value has the field %q", a.Field))
		case slices.ContainsFunc(seen, a.Same) && a.Field == "":
			problems = append(problems, "all fields have two aggregates")
		case slices.ContainsFunc(seen, a.Same):
			problems = append(problems, fmt.Sprintf("field %q has two aggregates", a.Field))
		}
		seen = append(seen, a)
	}
	ch.addAll("AGGREGATE", problems, "name fields of "+strings.Join(fields, ", ")+", as in bytes=sum; a value of COMPUTE may repeat a field")
	for i := range ch.c.Detectors {
		if d := &ch.c.Detectors[i]; every > 0 && d.Grid.Span > 0 {
			ch.add("EVERY", fmt.Sprintf("set, but detector %s counts records in a grid", d.Name), "run the grid in a group of its own")
		}
	}
}

const mostUnit = 64

func cutUnit(text string) (field, unit string, ok bool) {
	field, unit, ok = strings.Cut(text, "=")
	return strings.TrimSpace(field), strings.TrimSpace(unit), ok
}

// units returns the units of values as state.Config has them.
func (c *Config) units() map[string]string {
	if len(c.Mapping.Units) == 0 {
		return nil
	}
	units := map[string]string{}
	for _, u := range c.Mapping.Units {
		field, unit, _ := cutUnit(u)
		for _, entry := range c.Mapping.Transform {
			t, err := rules.ParseTransform(entry)
			switch {
			case err != nil || !t.About(field):
			case t.Transform == rules.Rate:
				unit += "/s"
			case t.Transform == rules.Log:
				unit = "ln(" + unit + ")"
			}
		}
		if c.Keys.Every > 0 && rules.AggregateOf(c.Keys.Aggregate, field) == rules.Count {
			continue
		}
		if len(c.Mapping.SeriesFields) > 0 {
			field = "/" + field
		}
		units[field] = unit
	}
	return units
}

// seriesFields checks ODRADEK_SERIES_FIELDS, beside the paths themselves.
func (ch *checker) seriesFields() {
	if !slices.Equal(ch.c.Mapping.ValueFields, []string{"value"}) {
		ch.add("VALUE_FIELDS", "set together with "+Prefix+"SERIES_FIELDS, which makes each field a series of one value", "keep one of them")
	}
	var problems []string
	for _, f := range ch.c.Mapping.SeriesFields {
		if strings.Contains(f, "/") {
			problems = append(problems, fmt.Sprintf("field %q has a '/', which separates a series key from the field", f))
		}
	}
	if i := slices.IndexFunc(ch.c.Mapping.SeriesFields, schemas.IsWildcard); i >= 0 && ch.c.Mapping.Format == "otlp" {
		problems = append(problems, fmt.Sprintf("%q, but each data point of OTLP is a sample of its own: set %sVALUE_FIELDS=value, and "+
			"%sKEY_FIELD to what tells the series apart, as name and attributes", ch.c.Mapping.SeriesFields[i], Prefix, Prefix))
	}
	ch.addAll("SERIES_FIELDS", problems, "")
}

// unjoin splits the error of errors.Join.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// FaultsOf returns the faults of settings whose names, less Prefix, begin with one of
// names, and the faults of the settings file; all faults if there are no names.
func FaultsOf(faults []Fault, names []string) []Fault {
	if len(names) == 0 {
		return faults
	}
	var kept []Fault
	for _, f := range faults {
		for _, n := range names {
			if strings.HasPrefix(f.Name, Prefix+n) || f.Name == configSetting {
				kept = append(kept, f)
				break
			}
		}
	}
	return kept
}
