package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// archivedFile is a file in an archive. If its name ends in a slash, it is a folder.
type archivedFile struct {
	name string // without a leading slash
	text []byte
	mode int64
}

// packTarGz packs files and their parent folders, sorted by name. All entries are owned by root and
// have the same modification time.
func packTarGz(files []archivedFile, at time.Time) ([]byte, error) {
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if !slices.ContainsFunc(all, func(o archivedFile) bool { return o.name == dir+"/" }) {
				all = append(all, archivedFile{name: dir + "/", mode: 0o755})
			}
		}
	}
	slices.SortFunc(all, func(a, b archivedFile) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range all {
		h := &tar.Header{Name: "./" + f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipText compresses text with gzip. The gzip header contains neither a name nor a time.
func gzipText(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// packAr packs the members of a Debian package in the given order.
func packAr(members []archivedFile, at time.Time) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, at.Unix(), 0, 0, 0o100644, len(m.text))
		b.Write(m.text)
		if len(m.text)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
