package main

import (
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writePackages writes a Debian package for amd64 and one for arm64. A package contains the
// program, the man page, an example configuration, and systemd units. It neither enables nor starts
// the units.
func (r *release) writePackages() error {
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := os.ReadFile(r.programPath("linux/" + arch))
		if err != nil {
			return err
		}
		files := []archivedFile{{"usr/bin/penstock", program, 0o755}, {"etc/penstock/", nil, 0o750}}
		for _, copied := range []struct{ from, to string }{
			{".deploy/penstock.service", "usr/lib/systemd/system/penstock.service"},
			{".deploy/penstock.socket", "usr/lib/systemd/system/penstock.socket"},
			{"config/example.yaml", "usr/share/doc/penstock/example.yaml"},
		} {
			text, err := os.ReadFile(filepath.Join(r.top, copied.from))
			if err != nil {
				return err
			}
			text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/penstock", "/usr/bin/penstock"))
			files = append(files, archivedFile{copied.to, text, 0o644})
		}
		page, err := os.ReadFile(filepath.Join(r.out, "penstock.1"))
		if err != nil {
			return err
		}
		if page, err = gzipText(page); err != nil {
			return err
		}
		files = append(files, archivedFile{"usr/share/man/man1/penstock.1.gz", page, 0o644},
			archivedFile{"usr/share/doc/penstock/copyright", []byte("Licence: " + licence + ".\n"), 0o644})
		deb, err := debianPackage(debianVersion(r.version), arch, files, r.time)
		if err != nil {
			return err
		}
		if err := r.writeFile("penstock_"+debianVersion(r.version)+"_"+arch+".deb", deb); err != nil {
			return err
		}
	}
	return nil
}

// debianVersion converts a version to Debian's format. In this format, a version begins with a
// digit.
func debianVersion(version string) string {
	version = strings.Replace(strings.TrimPrefix(version, "v"), "-dev", "~dev", 1) // ~ sorts first in Debian
	version = strings.ReplaceAll(version, "-", "+")
	if version == "" || !strings.Contains(version, ".") || version[0] < '0' || version[0] > '9' { // a commit
		return "0.0.0+" + version
	}
	return version
}

// createUserScript is a script that creates the unit's user, and allows this user to read the
// configuration's folder.
const createUserScript = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  getent passwd penstock >/dev/null || useradd --system --no-create-home --user-group --shell /usr/sbin/nologin penstock
  chgrp penstock /etc/penstock
  [ ! -d /run/systemd/system ] || systemctl daemon-reload || true
fi
`

func debianPackage(version, arch string, files []archivedFile, at time.Time) ([]byte, error) {
	var sums strings.Builder
	size := 0
	for _, f := range files {
		size += len(f.text)
		if !strings.HasSuffix(f.name, "/") {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.text), f.name)
		}
	}
	control := fmt.Sprintf("Package: penstock\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\nDepends: passwd\nRecommends: ca-certificates\n"+
		"Section: net\nPriority: optional\nHomepage: %s\nDescription: %s\n", version, arch, maintainer, (size+1023)/1024, projectURL, packageSummary)
	inner, err := packTarGz([]archivedFile{{"control", []byte(control), 0o644}, {"md5sums", []byte(sums.String()), 0o644}, {"postinst", []byte(createUserScript), 0o755}}, at)
	if err != nil {
		return nil, err
	}
	data, err := packTarGz(files, at)
	if err != nil {
		return nil, err
	}
	if inner, err = gzipText(inner); err != nil {
		return nil, err
	}
	if data, err = gzipText(data); err != nil {
		return nil, err
	}
	return packAr([]archivedFile{{name: "debian-binary", text: []byte("2.0\n")}, {name: "control.tar.gz", text: inner}, {name: "data.tar.gz", text: data}}, at), nil
}
