package local

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/front/plaintext"
	"penstock/upstreams/engine"
)

// initConfigHead is the part of a new file before the engines and models.
const initConfigHead = `# Written by "penstock init". Every setting and its meaning: penstock check --example. What is wrong: penstock check FILE.

listen: 127.0.0.1:4000              # the API; for other machines 0.0.0.0:4000, behind TLS
admin: { listen: 127.0.0.1:9090, token: %q }   # status page, metrics, reload, drain

keys:
  - id: first
    hash: %q

# What clients carry from turn to turn without reading it, reasoning and compacted conversations, is sealed for their key.
seal: { keys: [%q] }

# In front of busy engines calls wait in a model's queue; after its wait, or where it is full, they get 429.
`

// ConfigDestination describes where a new configuration is written.
type ConfigDestination struct {
	File string // "-" means Out
	Out  io.Writer
	// Notes receives all other messages if the configuration is written to Out.
	Notes io.Writer
}

// InitConfig writes a configuration for the engines that respond, with new seal keys, a new API key
// and a new admin token. It prints the key and the token once, and lists the engines that do not
// respond. It fails if no engine responds. It does not overwrite an existing file.
func InitConfig(ctx context.Context, named NamedEngines, to ConfigDestination) error {
	notes := to.notesWriter()
	// checked before engines are queried, so that mistakes are reported early
	if err := to.checkWritable(); err != nil {
		return err
	}
	engines, missing, err := named.detectEngines(ctx, plaintext.NewCleanWriter(notes))
	if err != nil {
		return err
	}
	if len(engines) == 0 && len(missing) > 0 {
		return errors.Join(missing...)
	}
	if len(engines) == 0 {
		return errors.New("no engine was found on the usual ports of this machine: name the URLs of yours, or start a simulated one with penstock sim")
	}
	key, hash, err := auth.NewKey()
	if err != nil {
		return err
	}
	token, sealKey := rand.Text(), make([]byte, 32)
	rand.Read(sealKey)
	text, err := renderConfig(fmt.Sprintf(initConfigHead, token, hash, base64.StdEncoding.EncodeToString(sealKey)), engines)
	if err != nil {
		return err
	}
	f, problems := config.ParseValid(to.File, text, engine.KnownEngines())
	if f == nil {
		return problems
	}
	if err := to.writeConfig(text); err != nil {
		return err
	}
	for _, m := range missing {
		fmt.Fprintf(notes, "Left out  %s\n", plaintext.CleanLine(m.Error()))
	}
	to.printSummary(notes, f, key)
	fmt.Fprintf(notes, "Operate   export PENSTOCK_ADMIN_TOKEN=%s   (admin.token, for penstock top, drain and the like)\n", token)
	return nil
}

func (to ConfigDestination) notesWriter() io.Writer {
	if to.File == "-" {
		return to.Notes
	}
	return to.Out
}

// checkWritable returns an error if it is certain that the file cannot be created.
func (to ConfigDestination) checkWritable() error {
	if to.File == "-" {
		return nil
	}
	if _, err := os.Lstat(to.File); err == nil {
		return fileExistsError(to.File)
	}
	folder := filepath.Dir(to.File)
	switch at, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s is not there: make it, or name another file with --output", folder)
	case err == nil && !at.IsDir():
		return fmt.Errorf("%s is a file, not a folder: name another file with --output", folder)
	}
	return nil
}

func (to ConfigDestination) writeConfig(text []byte) error {
	if to.File == "-" {
		_, err := to.Out.Write(text)
		return err
	}
	return createPrivateFile(to.File, text)
}

// printSummary describes a new configuration. If the key is new, it prints the key.
func (to ConfigDestination) printSummary(notes io.Writer, f *config.File, key string) {
	fmt.Fprintf(notes, "%s, %s\n", pluralize(len(f.Upstreams), "upstream"), pluralize(len(f.Models), "model"))
	if key != "" {
		fmt.Fprintf(notes, "API key   %s   (shown this once: the configuration has its hash)\n", key)
	}
	if to.File != "-" {
		name := plaintext.CleanLine(to.File)
		fmt.Fprintf(notes, "Written   %s\nNext      penstock serve --config %s\n", name, name)
	}
}

func pluralize(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// createPrivateFile creates a new file that only its owner can read.
func createPrivateFile(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fileExistsError(name)
	} else if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func fileExistsError(name string) error {
	return fmt.Errorf("%s exists and is left as it is: name another file with --output, or print to the terminal with --output -", name)
}
