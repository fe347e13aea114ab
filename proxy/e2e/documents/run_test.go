//go:build unix

package documents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// scriptVariable is the environment variable that makes this program run a script if it is a child
// process of the tests.
const scriptVariable = "PENSTOCK_DOCUMENT_SCRIPT"

func TestMain(m *testing.M) {
	if script := os.Getenv(scriptVariable); script != "" {
		fmt.Fprintln(os.Stderr, runScript(script))
		os.Exit(1)
	}
	os.Exit(rig.Main(m, 2))
}

// runScript replaces the process by a shell that runs script. It returns only on failure.
func runScript(script string) error {
	if err := raiseLoopback(); err != nil {
		return err
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		return err
	}
	return syscall.Exec(shell, []string{"bash", script}, os.Environ())
}

// testedElsewhere lists the documents whose blocks another test runs in a shorter form.
var testedElsewhere = map[string]string{"bench/README.md": "bench.TestReadmeCommands"}

// prelude makes a script fail on any error that a reader would notice.
const prelude = `set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
curl() { command curl --fail-with-body --no-progress-meter "$@"; }
`

// TestRun runs the run blocks of each document as one script, in a folder with the layout of the
// repository's top folder. If possible, each document has a separate network, so that the printed
// ports are free. The scripts of documents for clients start with the first blocks of README.md.
func TestRun(t *testing.T) {
	fastset.SkipIfShort(t, "the commands of the documents")
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	for _, doc := range documents(t) {
		t.Run(doc, func(t *testing.T) {
			var script strings.Builder
			script.WriteString(prelude)
			if strings.HasPrefix(doc, "translate/clients/") {
				begun := blocksOf(t, "README.md")[:4]
				for i := range begun { // README.md builds the program itself
					begun[i].text = build.ReplaceAllString(begun[i].text, `cp "$$(command -v penstock)" penstock`)
				}
				writeBlocks(t, &script, begun)
			}
			if !writeBlocks(t, &script, blocksOf(t, doc)) {
				return
			}
			if testedElsewhere[doc] != "" {
				t.Logf("%s runs its blocks", testedElsewhere[doc])
				return
			}
			t.Parallel()
			runInNetwork(t, script.String())
		})
	}
}

var build = regexp.MustCompile(`(?m)^.*go build -o penstock .*$`)

// loadTest matches a command that exits with 98 if the machine was too busy for a valid result.
var loadTest = regexp.MustCompile(`(?m)^(\S*penstock bench [^#\n]*)`)

// writeBlocks adds the run blocks to a script and reports whether there were any.
func writeBlocks(t *testing.T, script *strings.Builder, blocks []block) (any bool) {
	for _, b := range blocks {
		if b.marker != "run" {
			continue
		}
		any = true
		fmt.Fprintf(script, "echo '== %s:%d'\n", b.doc, b.line)
		switch b.lang {
		case "bash":
			script.WriteString(loadTest.ReplaceAllString(b.text, "$1 || [ $$? = 98 ] "))
		case "python":
			if exec.Command("python3", "-c", "import openai").Run() != nil {
				t.Logf("%s:%d: NOT RUN: the package openai is not installed for python3", b.doc, b.line)
				continue
			}
			fmt.Fprintf(script, "python3 - <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n", b.text)
		default:
			t.Errorf("%s:%d: blocks in %s cannot be run", b.doc, b.line, b.lang)
		}
	}
	return any
}

func runInNetwork(t *testing.T, script string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, ".script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(repoRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		from, err := filepath.Abs(filepath.Join(repoRoot, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == ".git" || e.Name() == "penstock" {
			continue
		}
		if err := os.Symlink(from, filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := t.Context(), func() {}
	if deadline, ok := t.Deadline(); ok {
		// The output shows where the script hangs.
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-30*time.Second))
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir = dir
	cmd.Env = append(rig.CleanEnv(), scriptVariable+"="+path, "HOME="+dir,
		"PATH="+filepath.Dir(rig.ProgramPath(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // the script runs with a different HOME
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(out)))
	}
	cmd.SysProcAttr = ownNetwork()
	var out rig.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
