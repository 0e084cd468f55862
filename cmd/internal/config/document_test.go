package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"odradek/detectors"
)

//go:generate go test -run TestConfigurationDoc|TestOpPages -update .

// configurationDoc returns docs/configuration.md, made from the tags.
func configurationDoc() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- made by go generate ./cmd/internal/config from the tags there -->

Every setting is an environment variable or an entry of a settings file. ` + "`worker check`" + ` names every fault of a
configuration at once, ` + "`worker check --online`" + ` asks the cluster too, and ` + "`worker config`" + ` prints what is in effect.

- A list is separated by commas, a duration is ` + "`500ms` or `1h30m`" + `, a size bytes or ` + "`512KiB`" + `.
- An empty variable counts as unset.
- A **secret** may be in a file, which the variable with ` + "`_FILE`" + ` added to its name names.
- An unknown name that begins with ` + "`ODRADEK_`" + ` is a warning at ` + "`run`, a fault at `check`." + `
- Texts below name settings without ` + "`ODRADEK_`" + `.

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

- A name is the variable's without ` + "`ODRADEK_`" + `, in lower case. Values are written as in variables, lists as YAML lists.
- ` + "`detectors`" + ` replaces ` + "`ODRADEK_DETECTORS`" + `; with ` + "`preset`" +
		` it changes detectors of the preset. ` + "`ODRADEK_DETECTORS=level`" + ` in the environment
  leaves the others of the file out.
- An unknown name, a name that is there twice and a value of the wrong shape are faults.
- YAML's anchors and aliases may be used, its tags and merge keys may not.
- A running worker applies changes of settings marked *live* ([change settings](operations/change-settings.md)).
- ` + "`worker config -yaml`" + ` prints the effective configuration as a settings file with a comment on each setting.
`)
	c := new(Config)
	section := ""
	row := func(s setting) {
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", s.name, live(s), defaultOf(s), valuesOf(s), help(s, ""))
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
	b.WriteString(`
## Each detector

These settings stand below a detector's name in the settings file. As a variable ` + "`window` of `press-1` is `" + Prefix +
		"DETECTOR_PRESS_1_WINDOW`" + `. No variable
may belong to two detectors, as ` + "`" + Prefix + "DETECTOR_X_MAX_LENGTH` to `x` and `x-max`" + `.
[Each op](#ops) has a page with its own settings.

`)
	settingsTable(&b, "", collect(reflect.ValueOf(new(detectorCommon)).Elem(), "", ""), func(s setting) bool { return s.tag.Get("ops") == "" })
	b.WriteString(`
The state of a series depends on ` + "`KEY_FIELD`, `TIME_FIELD`, `TIME_UNIT`" +
		` and a detector's ` + "`FIELDS`, `OP`, `WINDOW`, `STRIDE`, `SMOOTH`, `SCALE`" + ` and
parameters. If one of these changes, ` + "`ODRADEK_STATE_MISMATCH`" + ` decides. Other changes keep all state.
`)
	b.WriteString("\n## Ops\n\n")
	for i, spec := range opSpecs() {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "[%s](ops/%s.md)", spec.Name, spec.Name)
	}
	b.WriteString(".\n[detectors.md](detectors.md) helps to choose.\n")
	b.WriteString(`
## Each mapping

[A mapping](records.md#topics-of-different-shapes) has settings for some of the input topics, such as
` + "`ODRADEK_MAPPING_PUMPS_TOPICS=a,b`" + ` and ` + "`ODRADEK_MAPPING_PUMPS_FORMAT=json`" + ` of mapping ` + "`pumps`" + `:

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

- What a mapping does not set is as without it; but of ` + "`VALUE_FIELDS` and `SERIES_FIELDS`" + ` it has only what it sets.
- ` + "`_DETECTORS`" + ` selects some of ` + "`ODRADEK_DETECTORS`" + ` for its topics.
- A topic may be in one mapping, and has to be an input topic. Mappings exclude ` + "`ODRADEK_REKEY`" + `.
- A topic that moves into a mapping with the same settings, or out of it, keeps its state.
`)
	b.WriteString(`
## Presets

[quality.md](quality.md#presets) has what each preset finds and costs. If a sample has several values, a detector has the settings
in the last column, and is left out if there are none.
`)
	list := strings.TrimPrefix(many[0].Several, severalNear)
	fmt.Fprintf(&b, "With more than %d values `default` and `vector` have `near` alone, with `THRESHOLD=%s`.\n", MostSeveral, list)
	for i := range Presets {
		p := &Presets[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n", p.Name, strings.ToUpper(p.Help[:1])+p.Help[1:])
		same := !slices.ContainsFunc(p.Detectors, func(d PresetDetector) bool { return d.One != d.Several })
		if same {
			b.WriteString("| detector | settings |\n|---|---|\n")
		} else {
			b.WriteString("| detector | one value | several values |\n|---|---|---|\n")
		}
		code := func(settings string) string {
			if settings == "" {
				return ""
			}
			return "`" + settings + "`"
		}
		var alike []string
		for _, d := range p.Detectors {
			if i > 0 && slices.Contains(Presets[0].Detectors, d) {
				alike = append(alike, "`"+d.Name+"`")
				continue
			}
			if same {
				fmt.Fprintf(&b, "| `%s` | %s |\n", d.Name, code(d.One))
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Name, code(d.One), code(d.Several))
		}
		if len(alike) > 0 {
			fmt.Fprintf(&b, "\nAs in `%s`: %s.\n", Presets[0].Name, strings.Join(alike, ", "))
		}
	}
	return wrapped(b.String())
}

// opPage returns docs/ops/NAME.md, made from the op's row of the table of ops. example are settings to begin with, picture says
// what the op's picture shows.
func opPage(spec *detectors.Spec, example, picture string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- made by go generate ./cmd/internal/config -->\n\n%s\n",
		spec.Name, spec.Help)
	fmt.Fprintf(&b, "\n![%s](%s.svg)\n\n%s\n\n```yaml\n%s```\n\n", spec.Name, spec.Name, picture, example)
	own := slices.DeleteFunc(collect(reflect.ValueOf(new(detectorCommon)).Elem(), "", ""),
		func(s setting) bool { return !slices.Contains(strings.Fields(s.tag.Get("ops")), spec.Name) })
	ofOp := slices.DeleteFunc(slices.Clone(spec.Params), func(p detectors.Param) bool { return !p.Setting() })
	own = append(collectParams(paramFields(ofOp), ""), own...)
	if len(own) == 0 {
		b.WriteString("It has the settings of [every detector](../configuration.md#each-detector) and no others.\n")
	} else {
		b.WriteString("See also [every detector's settings](../configuration.md#each-detector).\n")
	}
	expert := func(s setting) bool { return s.tag.Get("expert") != "" }
	settingsTable(&b, "## Settings", own, func(s setting) bool { return !expert(s) })
	settingsTable(&b, "## For experts", own, expert)
	if len(spec.Defaults) > 0 {
		b.WriteString("\n## Other defaults\n\n")
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
		fmt.Fprintf(b, "| `%s`%s | %s | %s | %s | %s | `%s` |\n", s.name, live(s), typeOf(s), defaultOf(s), valuesOf(s), help(s, up), example)
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
	case s.field.Type() == reflect.TypeFor[HistoryLength]():
		return "number or duration"
	case s.field.CanInt():
		return "integer"
	case s.field.CanFloat():
		return "number"
	case s.field.Kind() == reflect.Bool:
		return "boolean"
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

// valuesOf returns the values of a setting as a cell of a table has them: nothing of a boolean, whose default shows what it is.
func valuesOf(s setting) string {
	if s.field.Kind() == reflect.Bool {
		return ""
	}
	return escaped(allowedValues(s))
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
