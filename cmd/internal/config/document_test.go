package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"odradek/detectors"
	"odradek/processor/cycle"
)

//go:generate go test -run TestConfigurationDoc|TestOpPages -update .

// configurationDoc returns docs/configuration.md, made from the tags.
func configurationDoc() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- made by go generate ./cmd/internal/config from the tags there; do not edit -->

Every setting is an environment variable, or an entry of a settings file. ` + "`worker check`" + ` names every fault of a
configuration at once, ` + "`worker check --online`" + ` asks the cluster too, and ` + "`worker config`" + ` prints what is in effect.

- Lists are separated by commas, durations are written like ` + "`500ms`, `30s`, `1h30m`" +
		`, sizes in bytes or like ` + "`512KiB`, `8MiB`" + `.
- An empty variable counts as unset.
- A **secret** may be given by file: the same name with ` + "`_FILE`" + ` names the file that holds it.
- An unknown name that begins with ` + "`ODRADEK_`" + ` is reported with the nearest known one: ` +
		"a warning at `run`, a fault under `check`." + `

## The settings file

` + "`ODRADEK_CONFIG=plant.yaml`, or the flag `-config` of every command" + `, names a file in YAML. Variables override it.

` + "```yaml" + `
group: plant
topics: [sensors, pumps]
kafka_brokers: [one:9092, two:9092]
kafka_password_file: /run/secrets/kafka
ttl: 24h
mappings:
  pumps: {topics: [pumps], format: json, key_field: pump}
detectors:
  vibration:
    op: knn
    window: 512
    keys: [pump-*, "!pump-test*"]
  level: {op: zscore, threshold: mad:6}
` + "```" + `

- A name is the variable's without ` + "`ODRADEK_`" + `, in lower case. Values are written as in variables; lists are YAML lists.
- ` + "`detectors`" + ` has the settings of each detector below its name. It stands for ` + "`ODRADEK_DETECTORS`" +
		`, too, or with ` + "`preset`" + ` it changes
  detectors of the preset. ` + "`ODRADEK_DETECTORS=level`" + ` in the environment leaves the others of the file out.
- ` + "`mappings`" + ` has the settings of each mapping below its name ([below](#each-mapping)).
- An unknown name, a name that is there twice and a value of the wrong shape are faults, named all at once with file and line.
- An empty value counts as not set. YAML's anchors and aliases may be used, its tags and merge keys may not.
- A file with a secret that others may read is warned of; ` + "`kafka_password_file`" + ` names a file of its own.
- A running worker takes up a changed file: settings marked *live* hold at once, and with any other change nothing is taken up
  ([change settings](operations/change-settings.md)).
- ` + "`worker config -yaml`" + ` prints the effective configuration as a settings file with a comment on each setting.
`)
	c := new(Config)
	section := ""
	row := func(s setting) {
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", s.name, live(s), defaultOf(s), escaped(allowedValues(s)), help(s, ""))
	}
	head := func(title, intro string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s| name | default | values | what it does |\n|---|---|---|---|\n", title, intro)
	}
	for _, s := range collect(reflect.ValueOf(c).Elem(), Prefix, "") {
		if s.section != section {
			section = s.section
			head(section, "")
		}
		row(s)
	}
	b.WriteString("\n### What the output topics hold\n\n| topic | name | key | values |\n|---|---|---|---|\n")
	for _, spec := range append(slices.Clone(cycle.Outputs[:]), cycle.ChangelogSpec) {
		values := "bytes"
		switch {
		case spec.Schema != "":
			values = "Avro, or JSON"
		case spec.Copies:
			values = "as in the input, with more headers"
		}
		if spec.Configs["cleanup.policy"] == "compact" {
			values += ", compacted"
		}
		fmt.Fprintf(&b, "| %s | `%s%s` | %s | %s |\n", strings.TrimPrefix(spec.Holds, "the "), Prefix, spec.Setting, spec.Key, values)
	}
	b.WriteString(`
## Each detector

A detector's settings stand below its name in the settings file. A variable for each is the flat form of the same table:
` + "`" + Prefix + "DETECTOR_<NAME>_WINDOW` is `window` of the detector `<NAME>`, in upper case, with `-` as `_`" +
		`. No variable may belong to
two detectors: ` + "`x` and `x-max` would share `" + Prefix + "DETECTOR_X_MAX_LENGTH`" + `, which is a fault. These are the settings of all
detectors; [each op](#ops) has a page with its own.

`)
	settingsTable(&b, "", collect(reflect.ValueOf(new(detectorCommon)).Elem(), "", ""), func(s setting) bool { return s.tag.Get("ops") == "" })
	b.WriteString(`
The state of a series depends on the mapping (` + "`KEY_FIELD`, `TIME_FIELD`, `TIME_UNIT`" +
		`, a detector's ` + "`FIELDS`" + `) and on a detector's
` + "`OP`, `WINDOW`, `STRIDE`, `SMOOTH`, `SCALE`" + ` and parameters. Changing one of these empties just what it covers, or stops the
worker:
` + "`ODRADEK_STATE_MISMATCH`" + ` decides. Changing anything else leaves the state as it is.
`)
	b.WriteString("\n## Ops\n\nThe values of `OP`. [detectors.md](detectors.md) says which to take.\n\n| op | what it finds |\n|---|---|\n")
	for _, spec := range opSpecs() {
		first, _, _ := strings.Cut(spec.Help, ". ")
		fmt.Fprintf(&b, "| [`%s`](ops/%s.md) | %s. |\n", spec.Name, spec.Name, escaped(strings.TrimSuffix(first, ".")))
	}
	b.WriteString(`
## Each mapping

Input topics whose records have another shape than those of the others get a mapping: ` + "`ODRADEK_MAPPING_<NAME>_TOPICS=a,b`" + `
names the topics, and these settings hold for them in place of those without ` + "`MAPPING_<NAME>_`" + `, which a mapping has where it
sets nothing. ` + "`<NAME>`" + ` is in upper case, with ` + "`-` as `_`" + `.
[records.md](records.md#topics-of-different-shapes) has an example.

`)
	for i, s := range slices.DeleteFunc(collect(reflect.ValueOf(new(Config)).Elem(), "", ""), func(s setting) bool { return !s.byMapping() }) {
		switch {
		case i > 0 && i%6 == 0:
			b.WriteString(",\n")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "`_%s`", s.name)
	}
	b.WriteString(`

- A mapping that sets one of ` + "`VALUE_FIELDS` and `SERIES_FIELDS`" + ` does not have the other of the settings without its name.
- ` + "`_DETECTORS`" + ` picks some of ` + "`ODRADEK_DETECTORS`" + ` for the topics; without it all of them look at their records.
  The settings of a detector are the same for all topics, but for its default ` + "`FIELDS`" + `: the mapping's values.
- A topic in two mappings, a mapping without topics, one of a topic that is no input topic, and an unknown setting of a mapping
  are faults. With mappings there is no ` + "`ODRADEK_REKEY`" + `.
- State is that of a worker which has the settings of the mapping as its own: a topic may move into a mapping with the same
  settings, and out of it, and keeps its state.
`)
	b.WriteString(`
## Presets

What ` + "`ODRADEK_PRESET`" + ` stands for; [quality.md](quality.md#presets) has what each finds and costs.
Where a sample has several values, a detector has the settings of the last column; one without settings there is left out.
`)
	for i := range All {
		p := &All[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n", p.Name, strings.ToUpper(p.Help[:1])+p.Help[1:])
		b.WriteString("| detector | one value | several values |\n|---|---|---|\n")
		code := func(settings string) string {
			if settings == "" {
				return ""
			}
			return "`" + settings + "`"
		}
		for _, d := range p.Detectors {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Name, code(d.One), code(d.Several))
		}
	}
	return wrapped(b.String())
}

// opPage returns docs/ops/NAME.md, made from the op's row of the table of ops. example are settings to begin with, picture says
// what the op's picture shows.
func opPage(spec *detectors.Spec, example, picture string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- made by go generate ./cmd/internal/config from the table of ops; do not edit -->\n\n%s\n",
		spec.Name, spec.Help)
	fmt.Fprintf(&b, "\n![%s](%s.svg)\n\n%s\n\n```yaml\n%s```\n\n", spec.Name, spec.Name, picture, example)
	own := slices.DeleteFunc(collect(reflect.ValueOf(new(detectorCommon)).Elem(), "", ""),
		func(s setting) bool { return !slices.Contains(strings.Fields(s.tag.Get("ops")), spec.Name) })
	ofOp := slices.DeleteFunc(slices.Clone(spec.Params), func(p detectors.Param) bool { return !p.Setting() })
	own = append(collectParams(paramFields(ofOp), ""), own...)
	if len(own) == 0 {
		b.WriteString("It has the settings of [every detector](../configuration.md#each-detector) and no others.\n")
	} else {
		b.WriteString("These are the op's own settings; those of [every detector](../configuration.md#each-detector) hold, too.\n")
	}
	expert := func(s setting) bool { return s.tag.Get("expert") != "" }
	settingsTable(&b, "## Settings", own, func(s setting) bool { return !expert(s) })
	settingsTable(&b, "## For experts", own, expert)
	if len(spec.Defaults) > 0 {
		b.WriteString("\n## Other defaults\n\nOf the settings of every detector:\n\n")
		for _, d := range spec.Defaults {
			fmt.Fprintf(&b, "- `%s`: %s\n", d.Name, d.Words)
		}
	}
	return wrapped(b.String())
}

// settingsTable writes a table of those settings of detectors that are shown, under a heading; nothing where there are none.
func settingsTable(b *strings.Builder, heading string, list []setting, shown func(setting) bool) {
	list = slices.DeleteFunc(slices.Clone(list), func(s setting) bool { return !shown(s) })
	if len(list) == 0 {
		return
	}
	up := ""
	if heading != "" {
		fmt.Fprintf(b, "\n%s\n\n", heading)
		up = "../"
	}
	b.WriteString("| name | type | default | values | what it does | example |\n|---|---|---|---|---|---|\n")
	for _, s := range list {
		example := s.tag.Get("example")
		if example == "" {
			example = otherValue(s)
		}
		values := allowedValues(s)
		if s.field.Kind() == reflect.Bool {
			values = ""
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s | `%s` |\n", s.name, live(s), typeOf(s), defaultOf(s), escaped(values), help(s, up), example)
	}
}

// otherValue returns a value of a setting with few of them that is not its default.
func otherValue(s setting) string {
	values := strings.Split(s.tag.Get("oneof"), "|")
	if s.field.Kind() == reflect.Bool {
		values = []string{"true", "false"}
	}
	for _, v := range values {
		if v != s.def {
			return v
		}
	}
	return ""
}

// typeOf names the type of a setting.
func typeOf(s setting) string {
	switch {
	case s.tag.Get("oneof") != "":
		return "word"
	case s.list():
		return "list"
	case s.field.Type() == reflect.TypeFor[time.Duration]():
		return "duration"
	case s.field.Type() == reflect.TypeFor[Length]():
		return "number or duration"
	case s.field.CanInt():
		return "whole number"
	case s.field.CanFloat():
		return "number"
	case s.field.Kind() == reflect.Bool:
		return "true or false"
	}
	return "text"
}

// live marks a setting that holds without a restart.
func live(s setting) string {
	if s.tag.Get("live") != "" {
		return " *live*"
	}
	return ""
}

func defaultOf(s setting) string {
	switch {
	case s.def == "":
		return ""
	case s.tag.Get("derived") != "":
		return escaped(s.def)
	}
	return "`" + s.def + "`"
}

var docsRE = regexp.MustCompile(`\bdocs/[a-z/-]+\.md`)

// help returns what a setting does, with links to pages; up leads to the folder docs.
func help(s setting, up string) string {
	return docsRE.ReplaceAllStringFunc(escaped(s.tag.Get("doc")), func(page string) string {
		path := strings.TrimPrefix(page, "docs/")
		return "[" + path + "](" + up + path + ")"
	})
}

// escaped returns a text as a cell of a table has it.
func escaped(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "<", "&lt;")
}

// allowedValues describes the values of a setting.
func allowedValues(s setting) string {
	if o := s.tag.Get("oneof"); o != "" {
		return strings.ReplaceAll(strings.TrimPrefix(o, "|"), "|", ", ")
	}
	if v := s.tag.Get("values"); v != "" {
		return v
	}
	lo, hi := s.tag.Get("min"), s.tag.Get("max")
	switch {
	case s.secret:
		return "secret"
	case s.field.Kind() == reflect.Bool:
		return "true, false"
	case lo != "" && hi != "":
		return lo + " to " + hi
	case lo != "":
		return "at least " + lo
	}
	return ""
}

// wrapped breaks the paragraphs and list items of a document in Markdown that have a line of more than 120 columns.
func wrapped(text string) string {
	lines, out := strings.Split(text, "\n"), []string(nil)
	fence := false
	prose := func(l string) bool {
		return l != "" && !fence &&
			!slices.ContainsFunc([]string{"|", "    ", "#", "```", "<!--"}, func(p string) bool { return strings.HasPrefix(l, p) })
	}
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "```") {
			fence = !fence
		}
		end := i + 1
		for prose(lines[i]) && end < len(lines) && prose(lines[end]) && !strings.HasPrefix(lines[end], "- ") {
			end++
		}
		paragraph := lines[i:end]
		i = end - 1
		if !prose(paragraph[0]) || !slices.ContainsFunc(paragraph, func(l string) bool { return len(l) > 120 }) {
			out = append(out, paragraph...)
			continue
		}
		indent := ""
		if strings.HasPrefix(paragraph[0], "- ") {
			indent = "  "
		}
		line := ""
		for _, word := range strings.Fields(strings.Join(paragraph, " ")) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) > 119:
				out, line = append(out, line), indent+word
			default:
				line += " " + word
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
