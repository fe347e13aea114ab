package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// completer simulates a shell's Tab key.
type completer struct{ shell, script string }

// completers contains the commands for each shell. Placeholders mark where a shell would add file
// names.
var completers = map[string]string{
	"bash": `source "$1"; shift; COMP_WORDS=(penstock "$@"); COMP_CWORD=$#; _penstock; printf '%s\n' "${COMPREPLY[@]}"`,
	"zsh": `compdef() { :; }; compadd() { shift; print -l -- "$@" }; _files() { :; }; source "$1"; shift
words=(penstock "$@"); CURRENT=$(($# + 1)); current="${@[-1]}"; _penstock | while read -r w; do [[ $w == "$current"* ]] && print -- "$w"; done; true`,
	"fish": `source $argv[1]; set -e argv[1]; complete -C "penstock "(string join " " -- $argv) | string replace -r '\t.*' ''; true`,
}

// suggestions returns the shell's sorted suggestions. The folder is empty, so they contain no file
// names.
func (c completer) suggestions(t *testing.T, env []string, line string) string {
	t.Helper()
	cmd := exec.Command(c.shell, append([]string{"-c", completers[filepath.Base(c.shell)]}, append(firstArgument(filepath.Base(c.shell)), append([]string{c.script}, strings.Split(line, " ")...)...)...)...)
	cmd.Env = append(env, "PATH="+filepath.Dir(c.script)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: penstock %s: %v, want no error: %s", c.shell, line, err, out)
	}
	words := strings.Fields(string(out))
	slices.Sort(words)
	return strings.Join(words, " ")
}

// firstArgument returns the argument that bash and zsh use as $0. fish has no such argument.
func firstArgument(shell string) []string {
	if shell == "fish" {
		return nil
	}
	return []string{"test"}
}

// installedShells returns the shells of this machine, each with its completion script. The program
// is in the same folder and is named penstock.
func installedShells(t *testing.T) (all []completer) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(rig.ProgramPath(t), filepath.Join(dir, "penstock")); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _ := command(t, 0, "completion", shell)
		for _, part := range []string{"maintenance", "overhead", "bench run", "share-port", "github"} {
			if !strings.Contains(out, part) {
				t.Errorf("%s does not know %q", shell, part)
			}
		}
		script := filepath.Join(dir, shell)
		if err := os.WriteFile(script, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("NOT TRIED: %s is not installed", shell)
			continue
		}
		if said, err := exec.Command(path, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s does not read the script %s: %v: %s", shell, script, err, said)
		}
		all = append(all, completer{path, script})
	}
	return all
}

// TestCompletion checks that a shell offers exactly the words that may come next.
func TestCompletion(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "tags: [h100]"})
	file := filepath.Join(t.TempDir(), "edge.yaml")
	text := "keys: [{ id: a, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }]\nupstreams: [{ name: gpu-a, url: \"http://10.0.0.1\", tags: [l4] }]\n" +
		"models: [{ id: \"tiny:8b\", deployments: [{ upstream: gpu-a }] }]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, shell := range installedShells(t) {
		t.Run(filepath.Base(shell.shell), func(t *testing.T) {
			running := []string{"PENSTOCK_ADMIN=" + p.Admin}
			stopped := []string{"PENSTOCK_ADMIN=http://127.0.0.1:1", "PENSTOCK_CONFIG=" + file}
			for _, row := range []struct {
				env        []string
				line, want string
			}{
				{nil, "be", "bench"},
				{nil, "bench r", "report run"},
				{nil, "key ", "create hash list new revoke rotate"},
				{nil, "check --format ", "github json text"},
				{nil, "check --format j", "json"},
				{nil, "completion ", "bash fish zsh"},
				{nil, "bench run --see", "--seed"},
				{nil, "bench --see", "--seed"},
				{nil, "--con", "--config"},
				{nil, "key new --app", "--append"},
				{nil, "key new --append ", ""},
				{nil, "check ", ""},
				{nil, "mai", "maintenance"},
				{nil, "serve check", ""},
				{nil, "bench --scenario fail", "failover"},
				{nil, "bench scenarios re", "reload"},
				{nil, "explain capacity", "capacity_full"},
				{nil, "explain upstreams.wa", "upstreams.wake upstreams.wake.after upstreams.wake.method upstreams.wake.url"},
				{nil, "explain 42", "422 426 429"},
				{running, "drain u", "up-0"},
				{running, "ready ", "up-0"},
				{running, "canary ", "sim"},
				{running, "bench -m s", "sim"},
				{running, "bench run --model ", "sim"},
				{running, "drain --wh", "--who"},
				{stopped, "drain ", "gpu-a tag:l4"},
				{stopped, "drain g", "gpu-a"},
				{stopped, "canary --admin " + p.Admin + " ", "sim"},
				{stopped, "bench --model ", "tiny:8b"},
				{[]string{"PENSTOCK_ADMIN=http://127.0.0.1:1"}, "canary ", ""},
			} {
				want := strings.Fields(row.want)
				slices.Sort(want)
				// Completion waits only briefly for a running edge, and a busy machine may delay
				// the edge.
				rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("penstock %s: %q", row.line, row.want), func() bool {
					return shell.suggestions(t, row.env, row.line) == strings.Join(want, " ")
				})
			}
		})
	}
}

// TestCompletion_Readline checks completion in readline, which treats : and = as separate words.
// Completion then inserts only the text after these characters.
func TestCompletion_Readline(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Config: "keys: [{ id: a, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }]\n" +
		"upstreams: [{ name: up-0, url: \"{{up-0}}\", engine: sim }]\nmodels: [{ id: \"tiny:8b\", deployments: [{ upstream: up-0, served: sim }] }]\n"})
	shells := installedShells(t)
	if len(shells) == 0 || filepath.Base(shells[0].shell) != "bash" {
		t.Skip("no bash")
	}
	for line, want := range map[string]string{
		"penstock bench -m tiny|:":           "8b",
		"penstock bench -m tiny|:|8":         "8b",
		"penstock bench --model|=|ti":        "tiny:8b",
		"penstock check --format|=":          "text json github",
		"penstock check --format|=|j":        "json",
		"penstock   canary  --format json  ": "tiny:8b",
	} {
		words := strings.Split(strings.ReplaceAll(line, " ", "|"), "|")
		script := `source "$1"; COMP_LINE="$2" COMP_POINT=${#2}; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _penstock; echo "${COMPREPLY[*]}"`
		rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("%s: %q", line, want), func() bool { // see TestCompletion
			cmd := exec.Command(shells[0].shell, append([]string{"-c", script, "test", shells[0].script, strings.ReplaceAll(line, "|", "")}, words...)...)
			cmd.Env = append(os.Environ(), "PENSTOCK_ADMIN="+p.Admin, "PATH="+filepath.Dir(shells[0].script)+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			return err == nil && strings.TrimSpace(string(out)) == want
		})
	}
}

// TestCompletionValues checks that an edge that does not respond does not delay completion. Names
// that a shell could execute must not be suggested.
func TestCompletionValues(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections but never responds
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	begun := time.Now()
	if out, errs := command(t, 0, "completion-values", "upstreams", "--", "drain", "--admin", ln.Addr().String()); out+errs != "" || time.Since(begun) > time.Minute {
		t.Errorf("after %s: completion = %q %q, want nothing within a minute", time.Since(begun), out, errs)
	}
	file := filepath.Join(t.TempDir(), "edge.yaml")
	text := "keys: [{ id: a, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }]\nupstreams: [{ name: gpu-a, url: \"http://10.0.0.1\" }]\n" +
		"models: [{ id: \"$(touch pwned)\", deployments: [{ upstream: gpu-a }] }, { id: good/one, deployments: [{ upstream: gpu-a }] }]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	line := []string{"completion-values", "models", "--", "bench", "--admin=http://127.0.0.1:1", "-c", file}
	if out, errs := command(t, 0, line...); out != "good/one\n" || errs != "" {
		t.Errorf("completion = %q %q, want good/one", out, errs)
	}
	if out, errs := command(t, 0, "completion-values", "models", "--", "bench", "--admin=http://127.0.0.1:1", "--config", file+".none"); out+errs != "" {
		t.Errorf("completion = %q %q, want nothing", out, errs)
	}
	if all, _ := command(t, 0, "--help"); strings.Contains(all, "completion-values") {
		t.Error("the help lists what is for scripts")
	}
}
