package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams/engine"
)

// These tests run the files in .deploy, to the extent that this is possible without a cluster and a
// container engine.

const deployDir = "../../.deploy"

func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unitValues returns a key's values in a systemd unit, in order.
func unitValues(unit, key string) (out []string) {
	for line := range strings.Lines(unit) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			out = append(out, v)
		}
	}
	return out
}

// TestDeployUnit runs every command of the unit in the order of systemd, with the test's
// configuration.
func TestDeployUnit(t *testing.T) {
	t.Parallel()
	unit := deployFile(t, "penstock.service")
	path, _ := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 0s, drain: 5s")
	args := func(key string) []string {
		t.Helper()
		values := unitValues(unit, key)
		if len(values) != 1 {
			t.Fatalf("%s has the values %q", key, values)
		}
		words := strings.Fields(strings.ReplaceAll(values[0], "/etc/penstock/penstock.yaml", path))
		if words[0] != "/usr/local/bin/penstock" {
			t.Fatalf("%s runs %s, want /usr/local/bin/penstock", key, words[0])
		}
		return words[1:]
	}
	if _, errs, code := rig.RunProgram(t, "", args("ExecStartPre")...); code != 0 {
		t.Errorf("ExecStartPre: exit code %d: %s", code, errs)
	}
	p := rig.StartProcess(t, args("ExecStart")...)
	admin := p.WaitOutput(`\(admin: (http://[^)]+)\)`)[1]
	if out, errs, code := rig.RunProgram(t, "", append(args("ExecReload"), "--admin", admin)...); code != 0 || !strings.Contains(out, "unchanged") {
		t.Errorf("ExecReload: exit code %d: %s%s", code, out, errs)
	}
	p.Signal(syscall.SIGTERM)
	p.WantExit(rig.WaitTimeout, 0)
	stop, err := time.ParseDuration(unitValues(unit, "TimeoutStopSec")[0])
	if clocks := config.Defaults().Timeouts; err != nil || stop < clocks.Linger.D()+clocks.Drain.D()+5*time.Second {
		t.Errorf("TimeoutStopSec is %v, and a drain may take %v (%v)", stop, clocks.Linger.D()+clocks.Drain.D(), err)
	}
	var descriptors int
	if _, err := fmt.Sscan(unitValues(unit, "LimitNOFILE")[0], &descriptors); err != nil || descriptors < 2*config.Defaults().Limits.Connections {
		t.Errorf("LimitNOFILE is %d", descriptors)
	}
}

// TestDeployUnitVerifies checks the unit with systemd-analyze.
func TestDeployUnitVerifies(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"penstock.service", "penstock.socket"} {
		text := strings.ReplaceAll(deployFile(t, name), "/usr/local/bin/penstock", rig.ProgramPath(t))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, "penstock.service"), filepath.Join(dir, "penstock.socket")).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("penstock")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestDeployImage checks that the program has the commands that the image runs, and that the build
// context contains the files to copy.
func TestDeployImage(t *testing.T) {
	t.Parallel()
	text := deployFile(t, "Dockerfile")
	command := func(pattern string) (words []string) {
		t.Helper()
		m := regexp.MustCompile(`(?m)` + pattern + `\s*(\[.*\])$`).FindStringSubmatch(text)
		if m == nil || json.Unmarshal([]byte(m[1]), &words) != nil {
			t.Fatalf("there is no %s", pattern)
		}
		return words
	}
	path, _ := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 0s, drain: 5s")
	entry, run, check := command("^ENTRYPOINT"), command("^CMD"), command("^HEALTHCHECK.*CMD")
	if entry[0] != check[0] || len(entry) != 1 {
		t.Fatalf("the image runs %q and checks with %q", entry, check)
	}
	for i := range run {
		run[i] = strings.ReplaceAll(run[i], "/etc/penstock/penstock.yaml", path)
	}
	p := rig.StartProcess(t, run...)
	admin := p.WaitOutput(`\(admin: (http://[^)]+)\)`)[1]
	if out, errs, code := rig.RunProgram(t, "", append(check[1:], "--admin", admin)...); code != 0 {
		t.Errorf("the check of an edge that serves: exit code %d: %s%s", code, out, errs)
	}
	p.Signal(syscall.SIGTERM)
	p.WantExit(rig.WaitTimeout, 0)
	if _, errs, code := rig.RunProgram(t, "", append(check[1:], "--admin", admin)...); code != 1 || errs == "" {
		t.Errorf("the check of one that is gone: exit code %d: %s", code, errs)
	}
	if !strings.Contains(text, "\nFROM scratch\n") || !strings.Contains(text, "\nUSER 65532:65532\n") || !strings.Contains(text, "CGO_ENABLED=0") {
		t.Error("the image is not of one static binary that is not root's")
	}
	var gomod struct{ version string }
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	gomod.version = regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	// If go.mod replaces a module with a folder, the folder must be copied before go mod download.
	ignored := deployFile(t, "Dockerfile.dockerignore")
	for _, m := range regexp.MustCompile(`(?m)=> \./(\S+)$`).FindAllStringSubmatch(string(mod), -1) {
		copied := strings.Index(text, "COPY "+m[1]+" ")
		if copied < 0 || copied > strings.Index(text, "go mod download") || !strings.Contains(ignored, "!"+m[1]+"\n") {
			t.Errorf("the image is built without %s", m[1])
		}
	}
	if !strings.Contains(text, "FROM golang:"+gomod.version+" ") {
		t.Errorf("the image is built with another Go than %s", gomod.version)
	}
}

// TestDeployKEDA checks that the engines' scaler queries existing metrics for a model and an
// upstream defined by the manifests.
func TestDeployKEDA(t *testing.T) {
	var scaled struct {
		Kind string
		Spec struct {
			Triggers []struct {
				Type     string
				Metadata struct{ Query, Threshold string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(deployFile(t, "keda.yaml")), &scaled); err != nil || scaled.Kind != "ScaledObject" || len(scaled.Spec.Triggers) < 2 {
		t.Fatalf("scaled object = %+v, %v; want 2 triggers or more", scaled, err)
	}
	manifests := deployFile(t, "kubernetes.yaml")
	for _, trigger := range scaled.Spec.Triggers {
		query := trigger.Metadata.Query
		names := regexp.MustCompile(`penstock_\w+`).FindAllString(query, -1)
		for _, name := range names {
			if !slices.ContainsFunc(observe.MetricFamilies(), func(f observe.MetricFamily) bool { return f.Name == name }) {
				t.Errorf("there is no metric %s", name)
			}
		}
		models := regexp.MustCompile(`model="([^"]+)"`).FindAllStringSubmatch(query, -1)
		for _, m := range models {
			if !strings.Contains(manifests, "- id: "+m[1]+"\n") {
				t.Errorf("there is no model %s", m[1])
			}
		}
		if len(names) == 0 || len(models) == 0 || trigger.Type != "prometheus" || trigger.Metadata.Threshold == "" {
			t.Errorf("a trigger is %+v", trigger)
		}
	}
}

// TestDeployKubernetes reads the manifests, checks their references to each other, and loads the
// configuration in them.
func TestDeployKubernetes(t *testing.T) {
	dir := t.TempDir()
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PENSTOCK_ADMIN_TOKEN", "the-operators-long-secret")
	type probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	var manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
		Spec     struct {
			ClusterIP string `yaml:"clusterIP"`
			Ports     []struct{ Port int }
			Template  struct {
				Spec struct {
					Grace    int `yaml:"terminationGracePeriodSeconds"`
					Security struct {
						RunAsNonRoot bool `yaml:"runAsNonRoot"`
					} `yaml:"securityContext"`
					Containers []struct {
						Args  []string
						Ports []struct {
							Name          string
							ContainerPort int `yaml:"containerPort"`
						}
						Startup   probe `yaml:"startupProbe"`
						Readiness probe `yaml:"readinessProbe"`
						Liveness  probe `yaml:"livenessProbe"`
						Lifecycle struct {
							PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
						}
						Mounts []struct {
							Name      string
							MountPath string `yaml:"mountPath"`
							SubPath   string `yaml:"subPath"`
						} `yaml:"volumeMounts"`
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	services := map[string]int{}
	var f *config.File
	grace, wait := 0, 0
	for dec := yaml.NewDecoder(strings.NewReader(deployFile(t, "kubernetes.yaml"))); ; {
		m := manifest
		if err := dec.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen[m.Kind] = true
		switch m.Kind {
		case "ConfigMap":
			text := strings.ReplaceAll(m.Data["penstock.yaml"], "/etc/penstock-keys", dir)
			if err := os.WriteFile(filepath.Join(dir, "keys.yaml"), []byte("keys: [{ id: team-a, hash: \""+hash+"\" }]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "penstock.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var problems config.Problems
			if f, problems = config.LoadValid(path, config.KnownProfiles{Engines: engine.EngineNames(nil)}); len(problems) > 0 {
				t.Fatal(problems)
			}
			command(t, 0, "check", path)
		case "Service":
			if m.Spec.ClusterIP == "None" {
				services[m.Metadata.Name] = m.Spec.Ports[0].Port
			}
		case "Deployment":
			spec := m.Spec.Template.Spec
			c := spec.Containers[0]
			grace, wait = spec.Grace, c.Lifecycle.PreStop.Sleep.Seconds
			if !spec.Security.RunAsNonRoot || strings.Join(c.Args, " ") != "serve --config /etc/penstock/penstock.yaml" {
				t.Errorf("it runs as root %v, %q", !spec.Security.RunAsNonRoot, c.Args)
			}
			for _, p := range []probe{c.Startup, c.Readiness} {
				if p.HTTPGet.Path != "/-/ready" || p.HTTPGet.Port != "admin" {
					t.Errorf("a probe asks %+v", p)
				}
			}
			if c.Liveness.HTTPGet.Path != "/health" || c.Liveness.HTTPGet.Port != "api" {
				t.Errorf("the liveness probe asks %+v", c.Liveness)
			}
			for _, mount := range c.Mounts {
				if mount.SubPath != "" {
					t.Errorf("%s is mounted by subPath, which is never updated", mount.MountPath)
				}
			}
		}
	}
	for _, kind := range []string{"ConfigMap", "Service", "Deployment", "PodDisruptionBudget"} {
		if !seen[kind] {
			t.Errorf("there is no %s", kind)
		}
	}
	if f == nil {
		t.Fatal("there is no configuration")
	}
	if need := time.Duration(wait)*time.Second + f.Timeouts.Linger.D() + f.Timeouts.Drain.D() + 5*time.Second; wait == 0 || time.Duration(grace)*time.Second < need {
		t.Errorf("the grace is %d s, and a stop may take %v", grace, need)
	}
	for _, u := range f.Upstreams {
		name, port, _ := strings.Cut(strings.TrimPrefix(u.URL, "http://"), ":")
		if u.Resolve.Every == 0 || fmt.Sprint(services[name]) != port {
			t.Errorf("the upstream %s does not resolve a headless service: %v", u.URL, services)
		}
	}
}

// TestDeployPods reads the manifests of an edge that discovers its engines as pods. It checks that
// the edge's role allows exactly the requests that the edge sends, and that the configuration in
// the manifests is valid.
func TestDeployPods(t *testing.T) {
	type manifest struct {
		Kind  string
		Data  map[string]string
		Rules []struct {
			APIGroups        []string `yaml:"apiGroups"`
			Resources, Verbs []string
		}
		RoleRef  struct{ Kind, Name string } `yaml:"roleRef"`
		Subjects []struct{ Kind, Name string }
		Metadata struct{ Name string }
	}
	byKind := map[string]manifest{}
	for dec := yaml.NewDecoder(strings.NewReader(deployFile(t, "kubernetes/pods.yaml"))); ; {
		var m manifest
		if err := dec.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		byKind[m.Kind] = m
	}
	role, binding := byKind["Role"], byKind["RoleBinding"]
	var may []string
	for _, r := range role.Rules {
		may = append(may, fmt.Sprint(r.APIGroups, r.Resources, r.Verbs))
	}
	want := "[] [pods] [get list watch];[inference.networking.k8s.io] [inferencepools] [get list watch]"
	if got := strings.Join(may, ";"); got != want {
		t.Errorf("the Role allows %s", got)
	}
	if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Metadata.Name || len(binding.Subjects) != 1 ||
		binding.Subjects[0].Name != byKind["ServiceAccount"].Metadata.Name {
		t.Errorf("the binding is %+v", binding)
	}
	t.Setenv("PENSTOCK_ADMIN_TOKEN", "the-operators-long-secret")
	dir := t.TempDir()
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"keys.yaml":     "keys: [{ id: team-a, hash: \"" + hash + "\" }]\n",
		"penstock.yaml": strings.ReplaceAll(byKind["ConfigMap"].Data["penstock.yaml"], "/etc/penstock-keys", dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, problems := config.LoadValid(filepath.Join(dir, "penstock.yaml"), config.KnownProfiles{Engines: engine.EngineNames(nil)})
	if len(problems) > 0 || f.Upstreams[0].Kubernetes.Selector == "" {
		t.Fatal(problems)
	}
}
