package support

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/admin"
)

type bundleFile struct {
	name          string
	description   string
	content       []byte
	missingReason string
}

// Options determine the contents of a bundle.
type Options struct {
	Config string // path of the configuration file; empty if unknown
	// Edge is the edge to query. Its empty fields are filled from the configuration.
	Edge    admin.Edge
	Output  string
	Now     time.Time
	Environ []string // the process's environment; only its names are written
}

// WriteBundle writes the bundle to a new file that only its owner can read, and writes a list of
// the contents to out.
func WriteBundle(o *Options, out io.Writer) error {
	file, err := os.OpenFile(o.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w; --output names another file", err)
	}
	parts := collectFiles(o)
	list := contentsList(parts)
	if err := writeArchive(file, o.Now, append([]bundleFile{{name: "contents.txt", content: []byte(list)}}, parts...)); err != nil {
		_ = file.Close() // only the first error is reported
		_ = os.Remove(o.Output)
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s (mode 0600) has\n%sLook through it before you send it: tar -xzOf %s | less\n",
		o.Output, plaintext.CleanText(list), o.Output)
	return err
}

func contentsList(parts []bundleFile) string {
	var has, lacks strings.Builder
	before := ""
	for i := range parts {
		p := &parts[i]
		switch p.missingReason {
		case "":
			fmt.Fprintf(&has, "  %-15s %6.1f KB  %s\n", p.name, float64(len(p.content))/1000, p.description)
		case before:
			fmt.Fprintf(&lacks, "  %-15s is missing, too\n", p.name)
		default:
			fmt.Fprintf(&lacks, "  %-15s is missing: %s\n", p.name, p.missingReason)
		}
		before = p.missingReason
	}
	return has.String() + lacks.String()
}

// writeArchive writes the archive, which does not contain the names of the user and the machine.
func writeArchive(w io.Writer, now time.Time, parts []bundleFile) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	for i := range parts {
		p := &parts[i]
		if p.missingReason != "" {
			continue
		}
		head := tar.Header{Name: "penstock-support/" + p.name, Mode: 0o600, Size: int64(len(p.content)), ModTime: now}
		if err := archive.WriteHeader(&head); err != nil {
			return err
		}
		if _, err := archive.Write(p.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}
