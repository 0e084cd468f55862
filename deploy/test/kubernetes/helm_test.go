package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const chart = repository + "/deploy/helm"

// settingsOf returns a settings file as variables.
func settingsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	var settings object
	if err := yaml.Unmarshal([]byte(file), &settings); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{}
	for k, v := range settings {
		if list, ok := v.([]any); ok {
			var all []string
			for _, e := range list {
				all = append(all, fmt.Sprint(e))
			}
			v = strings.Join(all, ",")
		}
		environment["ODRADEK_"+strings.ToUpper(k)] = fmt.Sprint(v)
	}
	return environment
}

// render returns the objects of the chart with values over its own.
func render(values string) ([]object, error) {
	c, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "plant", Namespace: "odradek", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var objects []object
	for name, text := range files {
		if filepath.Ext(name) != ".yaml" || strings.TrimSpace(text) == "" {
			continue
		}
		var o object
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// TestChart: helm lint has nothing to say of the chart, and what it renders holds to the schemas and to what the worker asks for.
func TestChart(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(chart, nil, "odradek", &chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}).Messages {
		if m.Severity >= support.WarningSev {
			t.Errorf("lint: %v", m)
		}
	}
	s := newSchemas(t)
	for name, values := range map[string]string{
		"defaults": "",
		"all": `
image: {repository: r, tag: "1"}
gpus: 1
secret: odradek
secretFiles: {kafka: kafka-credentials, tls: plant-tls}
serviceAccountName: plant
imagePullSecrets: [{name: pull}]
podLabels: {team: plant}
podAnnotations: {a: b}
nodeSelector: {gpu: "yes"}
tolerations: [{key: plant, operator: Exists}]
affinity: {nodeAffinity: {}}
env: [{name: ODRADEK_LOG_LEVEL, value: debug}]
podMonitor: {enabled: true, labels: {release: prometheus}}
keda: {enabled: true, authenticationRef: kafka}
config: {kafka_tls: true, kafka_password_file: /etc/odradek/kafka/password, topics: [sensors]}
`,
	} {
		objects, err := render(values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range faults(t, s, objects, true) {
			t.Errorf("%s: %s", name, f)
		}
		for _, o := range objects {
			if o["kind"] == "StatefulSet" && name == "all" {
				pod := at(o, "spec", "template", "spec")
				if text(pod, "containers", 0, "resources", "limits", "nvidia.com/gpu") != "1" ||
					text(pod, "volumes", 2, "secret", "secretName") != "kafka-credentials" || len(asList(at(pod, "tolerations"))) != 2 {
					t.Errorf("%v", pod)
				}
			}
		}
		if n := map[string]int{"defaults": 4, "all": 6}[name]; len(objects) != n {
			t.Errorf("%s: %d objects, want %d", name, len(objects), n)
		}
	}
	for values, want := range map[string]string{
		"replica: 2":                       "replica",
		"replicas: two":                    "replicas",
		"config: {instance_id: one}":       "config",
		"config: {GROUP: plant}":           "GROUP",
		"config: {topics: []}":             "topics",
		"keda: {enabled: true, max: 3}":    "max",
		"podDisruptionBudget: {on: false}": "podDisruptionBudget",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a fault with %q", values, err, want)
		}
	}
	objects, err := render("config: {drain_time: 5s}\nterminationGracePeriodSeconds: 20")
	if err != nil {
		t.Fatal(err)
	}
	found := faults(t, s, objects, true)
	for _, want := range []string{"no setting ODRADEK_DRAIN_TIME", "grace period"} {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("want a fault with %q, got %q", want, found)
		}
	}
	b, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil || !strings.Contains(string(b), "name: odradek\n") {
		t.Errorf("%s, %v", b, err)
	}
}
