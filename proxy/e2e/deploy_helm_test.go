package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"

	"penstock/config"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/access/auth"
	"penstock/proxy/build"
	"penstock/upstreams/engine"
)

// TestDeployHelm renders the chart with its default values and with everything enabled. It checks
// that the objects parse, that the configuration in them is valid, and that every mounted volume
// exists. .ci/full runs Helm itself.
func TestDeployHelm(t *testing.T) {
	for name, c := range map[string]struct {
		values, kinds string
		mounts        int
	}{
		"own values": {"{}", "ConfigMap Deployment PodDisruptionBudget Service Service", 2},
		"everything": {`
store: { url: "redis://valkey:6379", secret: store, signing: { secret: fleet } }
tls: { secret: edge-tls }
discovery: true
serviceMonitor: { enabled: true, labels: { release: prometheus } }
autoscaling: { enabled: true }
env: [{ name: A, value: "1" }]
envFrom: [{ secretRef: { name: more } }]
image: { pullSecrets: [{ name: registry }] }
podAnnotations: { a: b }
nodeSelector: { zone: a }
tolerations: [{ key: a, operator: Exists }]
affinity: { nodeAffinity: {} }
topologySpreadConstraints: [{ maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway }]
`, "ConfigMap Deployment PodDisruptionBudget Role RoleBinding ScaledObject Service Service ServiceAccount ServiceMonitor", 3},
	} {
		t.Run(name, func(t *testing.T) {
			objects := renderChart(t, c.values)
			var kinds []string
			for _, o := range objects {
				kinds = append(kinds, o.Kind)
			}
			slices.Sort(kinds)
			if got := strings.Join(kinds, " "); got != c.kinds {
				t.Errorf("the chart has %s, want %s", got, c.kinds)
			}
			var grace int
			var file string
			for _, o := range objects {
				switch o.Kind {
				case "ConfigMap":
					file = o.Data["penstock.yaml"]
				case "Deployment":
					spec := o.Spec.Template.Spec
					grace = spec.Grace
					if got := len(spec.Containers[0].Mounts); got != c.mounts || len(spec.Volumes) != c.mounts {
						t.Errorf("%d mounts of %d volumes, want %d", got, len(spec.Volumes), c.mounts)
					}
				}
			}
			f := validInPod(t, file)
			if need := 5*time.Second + f.Timeouts.Linger.D() + f.Timeouts.Drain.D() + 5*time.Second; time.Duration(grace)*time.Second < need {
				t.Errorf("the grace is %d s, and a stop may take %v", grace, need)
			}
		})
	}
}

// chartObject contains the parts of an object that the test reads.
type chartObject struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Mounts []map[string]any `yaml:"volumeMounts"`
				}
				Volumes []map[string]any
			}
		}
	}
}

// validInPod reads the file as an edge in the pod would. Keys and a certificate are supplied by the
// test.
func validInPod(t *testing.T, file string) *config.File {
	t.Helper()
	t.Setenv("PENSTOCK_ADMIN_TOKEN", "the-operators-long-secret")
	t.Setenv("PENSTOCK_FLEET_SECRET", strings.Repeat("0123456789abcdef", 4))
	t.Setenv("PENSTOCK_STORE_PASSWORD", "the-stores-long-secret")
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	selfsigned.WritePair(t, dir, "tls", time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour))
	file = strings.NewReplacer("/etc/penstock-keys", dir, "/etc/penstock-tls/tls.crt", dir+"/tls.pem", "/etc/penstock-tls/tls.key", dir+"/tls.key").Replace(file)
	for name, text := range map[string]string{"keys.yaml": "keys: [{ id: team-a, hash: \"" + hash + "\" }]\n", "penstock.yaml": file} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "penstock.yaml")
	f, problems := config.LoadValid(path, config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if problems.Err() != nil {
		t.Fatalf("%v\n%s", problems, file)
	}
	command(t, 0, "check", path)
	return f
}

// renderChart renders the chart as Helm does. It supports only the features that the templates of
// this chart use.
func renderChart(t *testing.T, values string) (objects []chartObject) {
	t.Helper()
	var own, changed map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(deployFile(t, "helm/values.yaml")), &own), yaml.Unmarshal([]byte(values), &changed)); err != nil {
		t.Fatal(err)
	}
	overrideValues(own, changed)
	data := map[string]any{
		"Values": own, "Release": map[string]any{"Name": "edge", "Namespace": "llm", "Service": "Helm"},
		"Chart": map[string]any{"Name": "penstock", "Version": build.SourceVersion(), "AppVersion": build.SourceVersion()},
	}
	all := template.New("")
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return strings.TrimPrefix(b.String(), "\n"), err
		},
		"nindent":    func(n int, s string) string { return strings.ReplaceAll("\n"+s, "\n", "\n"+strings.Repeat(" ", n)) },
		"toYaml":     func(v any) (string, error) { text, err := yaml.Marshal(v); return strings.TrimSpace(string(text)), err },
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"trim":       strings.TrimSpace,
		"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"default": func(def, v any) any {
			if truth, _ := template.IsTrue(v); truth {
				return v
			}
			return def
		},
		"ternary": func(yes, no any, is bool) any {
			if is {
				return yes
			}
			return no
		},
	})
	folder := filepath.Join(deployDir, "helm/templates")
	template.Must(all.ParseGlob(filepath.Join(folder, "*.tpl")))
	template.Must(all.ParseGlob(filepath.Join(folder, "*.yaml")))
	names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatal("there are no templates", err)
	}
	for _, name := range names {
		var b strings.Builder
		if err := all.ExecuteTemplate(&b, filepath.Base(name), data); err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewDecoder(strings.NewReader(b.String())); ; {
			var o chartObject
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, b.String())
			}
			if o.Kind != "" {
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// overrideValues overrides the chart's values, map by map.
func overrideValues(own, changed map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		inner, isMap := changed[name].(map[string]any)
		if below, ok := own[name].(map[string]any); ok && isMap && len(below) > 0 {
			overrideValues(below, inner)
			continue
		}
		own[name] = changed[name]
	}
}
