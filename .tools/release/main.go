// Command release builds all files of a release: static programs for six systems, Debian packages,
// a container image, a bill of materials (SBOM), a Homebrew formula, a man page and checksums.
//
//	go -C .tools run ./release -out /tmp/release
//
// It needs only Go, git and the module proxy. The same commit always yields the same bytes: all
// times are the commit time, paths are trimmed, and lists are sorted. Values that the project's
// owner has not chosen yet are placeholders (owner.go).
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targetSystems are the targets of the programs. The programs for darwin and windows are built but
// not tested.
var targetSystems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// release is a release that is being built.
type release struct {
	top, out string
	version  string
	time     time.Time // time of the commit
}

func main() {
	log.SetFlags(0)
	out := flag.String("out", "dist", "folder to write to")
	version := flag.String("version", "", "version, a tag; by default that of proxy/build/VERSION, with the commit unless it has the tag")
	flag.Parse()
	if err := buildRelease(*out, *version); err != nil {
		log.Fatal(err)
	}
}

func buildRelease(out, version string) error {
	top, err := commandOutput("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if version, err = versionToBuild(top, version); err != nil {
		return err
	}
	seconds, err := commandOutput("git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := release{top: top, out: out, version: version, time: time.Unix(unix, 0).UTC()}
	for _, step := range []func() error{r.buildPrograms, r.writeManPage, r.writePackages, r.writeImage, r.writeSBOM, r.writeFormula, r.writeChecksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// versionToBuild returns the version to build. A requested version must equal the version in the
// sources, or start with that version and a dash. If no version is requested, an untagged commit
// gets a development version.
func versionToBuild(top, asked string) (string, error) {
	text, err := os.ReadFile(filepath.Join(top, "proxy/build/VERSION"))
	if err != nil {
		return "", err
	}
	sources := "v" + strings.TrimSpace(string(text))
	if asked != "" {
		if asked != sources && !strings.HasPrefix(asked, sources+"-") {
			return "", fmt.Errorf("the version %s is not that of the sources, %s: change proxy/build/VERSION, or the tag", asked, sources)
		}
		return asked, nil
	}
	at, err := commandOutput("git", "describe", "--tags", "--always", "--dirty")
	if err != nil || at == sources {
		return at, err
	}
	commit, err := commandOutput("git", "describe", "--always", "--dirty", "--exclude=*")
	return sources + "-dev.g" + strings.ReplaceAll(commit, "-", "."), err
}

// commandOutput returns a command's output without the final newline.
func commandOutput(name string, args ...string) (string, error) {
	text, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (r *release) programPath(system string) string {
	name := "penstock-" + strings.ReplaceAll(system, "/", "-")
	if strings.HasPrefix(system, "windows/") {
		name += ".exe"
	}
	return filepath.Join(r.out, name)
}

func (r *release) buildPrograms() error {
	for _, system := range targetSystems {
		goos, goarch, _ := strings.Cut(system, "/")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags=-s -w -buildid= -X penstock/proxy/build.version="+r.version, "-o", r.programPath(system), ".")
		build.Dir = r.top
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=-mod=readonly")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build for %s: %w\n%s", system, err, text)
		}
	}
	return nil
}

// nativeProgram returns the path of the program for this machine.
func (r *release) nativeProgram() string { return r.programPath(runtime.GOOS + "/" + runtime.GOARCH) }

func (r *release) writeFile(name string, text []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}

// writeChecksums writes the file that sha256sum -c reads.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		sum, err := r.sha256Hex(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return r.writeFile("SHA256SUMS", []byte(b.String()))
}

func (r *release) sha256Hex(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func commandNamesInHelp(help string) (names []string) {
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	for line := range strings.Lines(list) {
		if rest, ok := strings.CutPrefix(line, "  "); ok && !strings.HasPrefix(rest, " ") {
			name, _, _ := strings.Cut(rest, "  ")
			names = append(names, strings.TrimSpace(name))
		}
	}
	return slices.Compact(names)
}
