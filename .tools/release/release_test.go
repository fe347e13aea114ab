package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var commit = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)

// pretend returns a release whose programs are scripts, except for one, which is this test binary.
func pretend(t *testing.T) release {
	t.Helper()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := release{top: top, out: t.TempDir(), version: "v1.2.3-4-gabcdef", time: commit}
	const script = "#!/bin/sh\nprintf 'Usage: penstock <command>\\n\\n.dotted\\n\\nCommands:\\n  serve        Run it,\\n               well.\\n  key new      Make a key.\\n'\n"
	for _, system := range targetSystems {
		if err := os.WriteFile(r.programPath(system), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestPackages(t *testing.T) {
	r := pretend(t)
	if err := errors.Join(r.writeManPage(), r.writePackages()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(r.out, "penstock.1"))
	if err != nil || !strings.Contains(string(page), "\n.SH PENSTOCK KEY NEW\n") || !strings.Contains(string(page), "\n\\&.dotted\n") {
		t.Errorf("page: %v, want a heading for key new and a masked dot\n%s", err, page)
	}
	deb := filepath.Join(r.out, "penstock_1.2.3+4+gabcdef_arm64.deb")
	before, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writePackages(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(deb); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v: two packages of one commit differ", err)
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	fields, err := exec.Command("dpkg-deb", "--info", deb).CombinedOutput()
	if err != nil || !strings.Contains(string(fields), "Architecture: arm64") {
		t.Errorf("fields: %v, want Architecture: arm64\n%s", err, fields)
	}
	list, err := exec.Command("dpkg-deb", "--contents", deb).CombinedOutput()
	for _, want := range []string{"-rwxr-xr-x root/root", "./usr/bin/penstock", "./usr/lib/systemd/system/penstock.socket", "drwxr-x--- root/root", "./usr/share/man/man1/penstock.1.gz"} {
		if err != nil || !strings.Contains(string(list), want) {
			t.Errorf("%v: %q is not in\n%s", err, want, list)
		}
	}
	unit, err := exec.Command("sh", "-c", "dpkg-deb --fsys-tarfile \"$0\" | tar -xO ./usr/lib/systemd/system/penstock.service", deb).CombinedOutput()
	if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/bin/penstock serve") {
		t.Errorf("unit: %v, want ExecStart of penstock serve\n%s", err, unit)
	}
}

func TestDebianVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gab": "1.2.3+4+gab", "v1.2.3-dev.gab.dirty": "1.2.3~dev.gab.dirty", "abcdef1": "0.0.0+abcdef1", "1234567": "0.0.0+1234567", "": "0.0.0+"} {
		if got := debianVersion(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}

// TestVersionToBuild checks that a release gets the version in the sources, and that no other tag
// is accepted.
func TestVersionToBuild(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "proxy/build"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "proxy/build/VERSION"), []byte("1.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "v1.2.4": "", "1.2.3": ""} {
		if got, err := versionToBuild(top, asked); got != want || (err == nil) != (want != "") {
			t.Errorf("versionToBuild(%s) = %q, %v; want %q", asked, got, err, want)
		}
	}
	if got, err := versionToBuild(top, ""); err != nil || !strings.HasPrefix(got, "v1.2.3-dev.g") {
		t.Errorf("by itself: %q, %v", got, err)
	}
}

// TestImage checks that every blob has the digest in its name, and that every referenced blob
// exists.
func TestImage(t *testing.T) {
	r := pretend(t)
	if _, err := os.Stat(caCertificatesPath); err != nil {
		t.Skip("there are no certificates of authorities")
	}
	if err := r.writeImage(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "penstock-oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for files := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		blob, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		blobs[name] = blob
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest != "" {
			if sum := sha256.Sum256(blob); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s holds something else", name)
			}
		}
	}
	seen := map[string]int{}
	var follow func(text []byte)
	follow = func(text []byte) {
		var node struct {
			Manifests, Layers []ociDescriptor
			Config            ociDescriptor
		}
		if json.Unmarshal(text, &node) != nil {
			return
		}
		for _, d := range append(append(node.Manifests, node.Layers...), node.Config) {
			if d.Digest == "" {
				continue
			}
			blob := blobs["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
			if len(blob) != d.Size {
				t.Errorf("%s %s has %d bytes, its descriptor says %d", d.MediaType, d.Digest, len(blob), d.Size)
			}
			if seen[d.MediaType]++; d.MediaType != mediaTypeConfig && d.MediaType != mediaTypeLayer {
				follow(blob)
			}
		}
	}
	follow(blobs["index.json"])
	if seen[mediaTypeIndex] != 1 || seen[mediaTypeManifest] != 2 || seen[mediaTypeConfig] != 2 || seen[mediaTypeLayer] != 2 || blobs["oci-layout"] == nil {
		t.Errorf("the image has %v", seen)
	}
}

// TestRest checks that the bill of materials lists the modules of a Go program, and that the
// formula contains every checksum.
func TestRest(t *testing.T) {
	r := pretend(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.programPath("linux/amd64"), program, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.writeSBOM(), r.writeFormula(), r.writeChecksums()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "penstock.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []sbomComponent
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.BOMFormat != "CycloneDX" || len(bill.Components) == 0 || bill.Components[0].Name != "std" {
		t.Errorf("bill: %v, want a CycloneDX one that begins with std\n%s", err, text)
	}
	sums, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := os.ReadFile(filepath.Join(r.out, "penstock.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasPrefix(name, "penstock-darwin") && !strings.Contains(string(recipe), sum) {
			t.Errorf("the formula lacks the checksum of %s", name)
		}
	}
	if strings.Count(string(sums), "\n") != len(targetSystems)+2 {
		t.Errorf("the checksums are\n%s", sums)
	}
}
