package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// This file tests the manifests of deploy/kubernetes: what kustomize builds of
// them is held to the schemas of Kubernetes and KEDA, and to the settings of the worker.
// It is a module of its own, so that none of this is a dependency of the worker.

const (
	repository = "../../.."
	manifests  = repository + "/deploy/kubernetes"
	version    = "1.30" // the newest that kubectl-validate has schemas of
)

type object = map[string]any

// build returns the objects that kustomize makes of a folder.
func build(t *testing.T, folder string) []object {
	t.Helper()
	list, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	var objects []object
	for _, r := range list.Resources() {
		b, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, decode(t, b))
	}
	return objects
}

func decode(t *testing.T, b []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// at returns the value at a path of field names and list indices, nil where there is none.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

// schemas compiles what objects are validated with: the OpenAPI documents of Kubernetes,
// which kubectl-validate brings with it, and the definitions of KEDA's ScaledObject (testdata, of KEDA 2.21) and of the Prometheus
// Operator's PodMonitor (of 0.85).
type schemas struct {
	folder string
	c      *jsonschema.Compiler
	known  map[string]*jsonschema.Schema // by apiVersion and kind
}

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kubectl-validate").Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(string(dir))) == 0 {
		out, err := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/kubectl-validate").Output()
		if err != nil {
			t.Fatal(err)
		}
		dir = []byte(text(decode(t, out), "Dir"))
	}
	s := &schemas{folder: filepath.Join(strings.TrimSpace(string(dir)), "pkg/openapiclient/builtins", version),
		c: jsonschema.NewCompiler(), known: map[string]*jsonschema.Schema{}}
	for kind, file := range map[string]string{"keda.sh/v1alpha1 ScaledObject": "keda.sh_scaledobjects.yaml",
		"monitoring.coreos.com/v1 PodMonitor": "monitoring.coreos.com_podmonitors.yaml"} {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var definition object
		if err := yaml.Unmarshal(b, &definition); err != nil {
			t.Fatal(err)
		}
		schema := at(definition, "spec", "versions", 0, "schema", "openAPIV3Schema").(object)
		strict(schema, false)
		// An object of any kind has this part; a definition names its type alone.
		at(schema, "properties").(object)["metadata"] = object{"type": "object"}
		s.known[kind] = s.compile(t, file+".json", schema, "")
	}
	return s
}

func (s *schemas) compile(t *testing.T, name string, document object, part string) *jsonschema.Schema {
	t.Helper()
	if err := s.c.AddResource(name, document); err != nil && !strings.Contains(err.Error(), "exists") {
		t.Fatal(err)
	}
	schema, err := s.c.Compile(name + part)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// strict makes fields that a schema does not name a fault, as kubectl does.
func strict(v any, named bool) {
	switch v := v.(type) {
	case object:
		_, has := v["properties"].(object)
		if _, more := v["additionalProperties"]; has && !more && !named && v["x-kubernetes-preserve-unknown-fields"] == nil {
			v["additionalProperties"] = false
		}
		for k, c := range v {
			strict(c, k == "properties" && !named)
		}
	case []any:
		for _, c := range v {
			strict(c, false)
		}
	}
}

// of returns the schema of an object.
func (s *schemas) schema(t *testing.T, o object) *jsonschema.Schema {
	t.Helper()
	group, kind := text(o, "apiVersion"), text(o, "kind")
	if known := s.known[group+" "+kind]; known != nil {
		return known
	}
	path := "apis/" + group + ".json"
	if !strings.Contains(group, "/") {
		path = "api/" + group + ".json"
	}
	b, err := os.ReadFile(filepath.Join(s.folder, path))
	if err != nil {
		t.Fatalf("no schema of %s %s: %v", group, kind, err)
	}
	document := decode(t, b)
	for name, part := range at(document, "components", "schemas").(object) {
		for _, k := range asList(at(part, "x-kubernetes-group-version-kind")) {
			v := text(k, "version")
			if g := text(k, "group"); g != "" {
				v = g + "/" + v
			}
			if v == group && text(k, "kind") == kind {
				strict(document, false)
				s.known[group+" "+kind] = s.compile(t, path, document, "#/components/schemas/"+name)
				return s.known[group+" "+kind]
			}
		}
	}
	t.Fatalf("%s has no %s", path, kind)
	return nil
}

func asList(v any) []any { l, _ := v.([]any); return l }

// faults lists what is wrong with the objects of an overlay.
func faults(t *testing.T, s *schemas, objects []object, fromHelm bool) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	byKind := map[string]object{}
	for _, o := range objects {
		kind := text(o, "kind")
		if byKind[kind] != nil {
			add("two objects are a %s", kind)
		}
		byKind[kind] = o
		if err := s.schema(t, o).Validate(o); err != nil {
			add("%s: %v", kind, err)
		}
	}
	scaled, monitor := byKind["ScaledObject"], byKind["PodMonitor"]
	for _, kind := range []string{"Namespace", "StatefulSet", "Service", "PodDisruptionBudget", "ConfigMap"} {
		if kind == "Namespace" && fromHelm {
			continue
		}
		if byKind[kind] == nil {
			add("there is no %s", kind)
			return list
		}
	}
	set := byKind["StatefulSet"]
	name, pod := text(set, "metadata", "name"), at(set, "spec", "template")
	worker := at(pod, "spec", "containers", 0)
	label := func(v any, path ...any) {
		selected, _ := at(v, path...).(object)
		if len(selected) == 0 {
			add("%s selects nothing", text(v, "kind"))
		}
		for k, want := range selected {
			if at(pod, "metadata", "labels", k) != want {
				add("%s selects %s=%v, which the pods do not have", text(v, "kind"), k, want)
			}
		}
	}
	label(set, "spec", "selector", "matchLabels")
	label(byKind["Service"], "spec", "selector")
	label(byKind["PodDisruptionBudget"], "spec", "selector", "matchLabels")
	if text(set, "spec", "serviceName") != text(byKind["Service"], "metadata", "name") {
		add("StatefulSet: no service %q", text(set, "spec", "serviceName"))
	}
	if at(byKind["Service"], "spec", "clusterIP") != "None" {
		add("Service: it must be headless")
	}

	if text(byKind["PodDisruptionBudget"], "spec", "unhealthyPodEvictionPolicy") != "AlwaysAllow" {
		add("PodDisruptionBudget: a worker that is not ready holds up a drain")
	}

	// The settings.
	settings, _ := at(byKind["ConfigMap"], "data").(object)
	identity := false
	environment := map[string]string{}
	if fromHelm {
		environment = settingsOf(t, text(settings, "odradek.yaml"))
		if text(pod, "spec", "volumes", 0, "configMap", "name") != text(byKind["ConfigMap"], "metadata", "name") {
			add("StatefulSet: no ConfigMap %q", text(pod, "spec", "volumes", 0, "configMap", "name"))
		}
		pod := at(pod, "spec")
		if got := text(pod, "containers", 0, "volumeMounts", 0, "mountPath"); got != text(pod, "containers", 0, "args", 2) {
			add("the settings file is mounted at %s", got)
		}
	} else {
		from := asList(at(worker, "envFrom"))
		if text(from, 0, "configMapRef", "name") != text(byKind["ConfigMap"], "metadata", "name") {
			add("StatefulSet: no ConfigMap %q", text(from, 0, "configMapRef", "name"))
		}
		for k, v := range settings {
			environment[k] = fmt.Sprint(v)
		}
	}
	for _, e := range asList(at(worker, "env")) {
		environment[text(e, "name")] = text(e, "value")
		identity = identity || text(e, "name") == "ODRADEK_INSTANCE_ID" && text(e, "valueFrom", "fieldRef", "fieldPath") == "metadata.name"
	}
	if !identity {
		add("ODRADEK_INSTANCE_ID is not the name of the pod")
	}
	documented := documentedSettings(t)
	for k := range environment {
		if !slices.Contains(documented, strings.TrimSuffix(k, "_FILE")) {
			add("there is no setting %s", k)
		}
	}
	drain, err := time.ParseDuration(environment["ODRADEK_DRAIN_TIMEOUT"])
	if err != nil {
		add("ODRADEK_DRAIN_TIMEOUT: %v", err)
	}
	if grace, _ := at(pod, "spec", "terminationGracePeriodSeconds").(float64); grace < drain.Seconds()+5 {
		add("the grace period of %v s is not above ODRADEK_DRAIN_TIMEOUT by 5 s", grace)
	}
	_, port, _ := strings.Cut(environment["ODRADEK_HTTP_ADDR"], ":")
	number, _ := strconv.ParseFloat(port, 64)
	if scraped := text(pod, "metadata", "annotations", "prometheus.io/port"); at(worker, "ports", 0, "containerPort") != number ||
		at(byKind["Service"], "spec", "ports", 0, "port") != number || scraped != port && (scraped != "" || monitor == nil) {
		add("ODRADEK_HTTP_ADDR is %q, and not every port is that", environment["ODRADEK_HTTP_ADDR"])
	}
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		if text(worker, probe, "httpGet", "path") != path || text(worker, probe, "httpGet", "port") != text(worker, "ports", 0, "name") {
			add("%s does not ask for %s", probe, path)
		}
	}
	mounted := false
	for _, m := range asList(at(worker, "volumeMounts")) {
		known := slices.ContainsFunc(asList(at(pod, "spec", "volumes")), func(v any) bool { return text(v, "name") == text(m, "name") })
		if !known {
			add("there is no volume %s", text(m, "name"))
		}
		mounted = mounted || text(m, "mountPath") == environment["ODRADEK_SCHEMA_REGISTRY_CACHE_DIR"]
	}
	if !mounted {
		add("no volume is mounted at ODRADEK_SCHEMA_REGISTRY_CACHE_DIR")
	}

	// The scaling and the scraping.
	if monitor != nil {
		label(monitor, "spec", "selector", "matchLabels")
		if text(monitor, "spec", "podMetricsEndpoints", 0, "port") != text(worker, "ports", 0, "name") {
			add("PodMonitor: no port %q", text(monitor, "spec", "podMetricsEndpoints", 0, "port"))
		}
	}
	if (scaled == nil) != (at(set, "spec", "replicas") != nil) {
		add("StatefulSet: the number of replicas is KEDA's to say, and without KEDA its own")
	}
	if scaled == nil {
		return list
	}
	if text(scaled, "spec", "scaleTargetRef", "name") != name || text(scaled, "spec", "scaleTargetRef", "kind") != "StatefulSet" {
		add("ScaledObject: it scales %q", text(scaled, "spec", "scaleTargetRef", "name"))
	}
	for key, setting := range map[string]string{"bootstrapServers": "ODRADEK_KAFKA_BROKERS", "consumerGroup": "ODRADEK_GROUP", "topic": "ODRADEK_TOPICS"} {
		if got := text(scaled, "spec", "triggers", 0, "metadata", key); got != environment[setting] {
			add("ScaledObject: %s is %q and %s %q", key, got, setting, environment[setting])
		}
	}
	return list
}

// documentedSettings are the names in docs/configuration.md.
func documentedSettings(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(repository + "/docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`ODRADEK_[A-Z_]+`).FindAllString(string(b), -1)
}

// TestManifests holds both overlays to the schemas and to what the worker asks for, and
// shows that each kind of fault is found.
func TestManifests(t *testing.T) {
	s := newSchemas(t)
	for overlay, folder := range map[string]string{"cpu": manifests + "/overlays/cpu", "gpu": manifests + "/overlays/gpu",
		"components": "testdata/components"} {
		objects := build(t, folder)
		for _, f := range faults(t, s, objects, false) {
			t.Errorf("%s: %s", overlay, f)
		}
		all, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		if gpu := strings.Contains(string(all), `"nvidia.com/gpu":"1"`); gpu != (overlay != "cpu") {
			t.Errorf("%s: asks for a GPU: %v", overlay, gpu)
		}
		kinds := regexp.MustCompile(`"kind":"(ScaledObject|PodMonitor)"`).FindAllString(string(all), -1)
		if with := len(kinds) == 2; with != (overlay == "components") || !with && len(kinds) > 0 {
			t.Errorf("%s needs more than a fresh cluster has: %v", overlay, kinds)
		}
		if overlay != "components" {
			continue
		}
		for _, c := range []struct{ old, new, want string }{
			{`"podManagementPolicy"`, `"podManagement"`, "podManagement"},
			{`"terminationGracePeriodSeconds":35`, `"terminationGracePeriodSeconds":"35"`, "terminationGracePeriodSeconds"},
			{`"terminationGracePeriodSeconds":35`, `"terminationGracePeriodSeconds":25`, "grace period"},
			{`"maxUnavailable":1`, `"maxUnavailable":true`, "maxUnavailable"},
			{`"path":"/readyz"`, `"path":"/ready"`, "readinessProbe"},
			{`"ODRADEK_LOG_FORMAT"`, `"ODRADEK_LOGFORMAT"`, "no setting ODRADEK_LOGFORMAT"},
			{`"fieldPath":"metadata.name"`, `"fieldPath":"metadata.uid"`, "ODRADEK_INSTANCE_ID"},
			{`"minReplicaCount":1`, `"minReplicaCount":"1"`, "minReplicaCount"},
			{`"pollingInterval"`, `"pollInterval"`, "pollInterval"},
			{`"consumerGroup":"plant"`, `"consumerGroup":"plants"`, "consumerGroup"},
			{`"ODRADEK_HTTP_ADDR":":9464"`, `"ODRADEK_HTTP_ADDR":":9465"`, "not every port"},
			{`"clusterIP":"None"`, `"clusterIP":"10.0.0.1"`, "headless"},
			{`"kind":"PodDisruptionBudget"`, `"kind":"Secret"`, "Secret"},
			{`"unhealthyPodEvictionPolicy":"AlwaysAllow"`, `"unhealthyPodEvictionPolicy":"IfHealthyBudget"`, "holds up a drain"},
			{`"port":"http"}]`, `"port":"web"}]`, "PodMonitor: no port"},
			{`"kind":"Namespace"`, `"kind":"Secret"`, "no Namespace"},
		} {
			broken := strings.Replace(string(all), c.old, c.new, 1)
			var list []object
			if err := json.Unmarshal([]byte(broken), &list); err != nil || broken == string(all) {
				t.Fatalf("%s for %s: %v", c.new, c.old, err)
			}
			if c.new == `"kind":"Secret"` {
				for _, o := range list {
					if o["kind"] == "Secret" {
						o["apiVersion"] = "v1"
					}
				}
			}
			found := faults(t, s, list, false)
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("%s: %s for %s: want a fault with %q, got %q", overlay, c.new, c.old, c.want, found)
			}
		}
	}
}

// TestBase holds the base, which has no component, to the schemas.
func TestBase(t *testing.T) {
	s := newSchemas(t)
	for _, o := range build(t, manifests+"/base") {
		if err := s.schema(t, o).Validate(o); err != nil {
			t.Error(err)
		}
	}
}
