package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/access/auth"
	"penstock/proxy/fleet/keystore"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/admin"
	"penstock/upstreams/engine"
)

// Key contains the commands for API keys.
type Key struct {
	New    keyNew    `cmd:"" help:"Make a key: prints it once, and the lines for the configuration; with --store it is in force at all edges."`
	Create keyCreate `cmd:"" help:"Have a running edge make a key, which is in force at once: prints it once."`
	Rotate keyRotate `cmd:"" help:"Have a running edge make another secret for a key: prints it once."`
	Revoke keyRevoke `cmd:"" help:"Revoke a key that was made at run time, by a running edge, or with --store in the fleet's store."`
	List   keyList   `cmd:"" help:"List the keys of a running edge, with --config those of a configuration, with --store those of the fleet's store."`
	Hash   keyHash   `cmd:"" help:"Hash a key that you have; it is read from standard input."`
}

type keyStoreFlags struct {
	Store  bool   `help:"Of the fleet's store, which --config names."`
	Config string `short:"c" placeholder:"FILE" env:"PENSTOCK_CONFIG" help:"Configuration with fleet.store and fleet.keys."`
}

const storeTimeout = 10 * time.Second

// openWriter connects to the store. The caller must call done at the end.
func (k *keyStoreFlags) openWriter() (w *keystore.Writer, ctx context.Context, done func(), err error) {
	if k.Config == "" {
		return nil, nil, nil, usageError("key: --store needs the --config that names the store")
	}
	f, problems := config.LoadValid(k.Config, engine.KnownEngines())
	if f == nil {
		return nil, nil, nil, problems
	}
	if w, err = proxy.OpenStoreKeyWriter(f); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	return w, ctx, func() { cancel(); w.Close() }, nil
}

// nonEmptyValue is the value of a flag that may be omitted but must not be empty. An empty value
// may come from an unset variable in a script, and would silently remove a limit.
type nonEmptyValue string

func (g *nonEmptyValue) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the value is empty: leave the flag out for a key without it")
	}
	*g = nonEmptyValue(text)
	return nil
}

type keyRights struct {
	Models  []string          `help:"Models the key may use: exact ids or patterns that end in *." default:"*"`
	Expires nonEmptyValue     `placeholder:"TIME" help:"End of the key, such as 2027-01-01 or 2027-01-01T00:00:00Z."`
	Limits  map[string]string `placeholder:"LIMIT=N" help:"Limits of the key, such as requests_per_minute=600; 0: no limit; can be repeated."`

	Operations  []string      `help:"Operations that the key may use; all, if it is left out."`
	RPM         nonEmptyValue `name:"rpm" placeholder:"N" help:"Short for --limits requests_per_minute=N."`
	TPM         nonEmptyValue `name:"tpm" placeholder:"N" help:"Short for --limits tokens_per_minute=N."`
	Concurrency nonEmptyValue `placeholder:"N" help:"Short for --limits concurrency=N."`
}

// mergeShortFlags copies the values of the short flags to Limits. It rejects empty values.
func (k *keyRights) mergeShortFlags() error {
	for limit, value := range k.Limits {
		if value == "" {
			return usageError("--limits " + limit + "=: the value is empty: give a number, or leave the limit out")
		}
	}
	for limit, n := range map[string]nonEmptyValue{
		"requests_per_minute": k.RPM, "tokens_per_minute": k.TPM, "concurrency": k.Concurrency,
	} {
		if n != "" {
			if k.Limits == nil {
				k.Limits = map[string]string{}
			}
			k.Limits[limit] = string(n)
		}
	}
	return nil
}

func (k *keyRights) requestMembers(id string) map[string]any {
	fields := map[string]any{"id": id, "models": k.Models}
	if len(k.Operations) > 0 {
		fields["operations"] = k.Operations
	}
	if k.Expires != "" {
		fields["expires"] = string(k.Expires)
	}
	if len(k.Limits) > 0 {
		limits := map[string]any{} // like decoded JSON: numbers, or a string for an amount of money
		for name, text := range k.Limits {
			if n, err := strconv.Atoi(text); err == nil {
				limits[name] = n
			} else {
				limits[name] = text
			}
		}
		fields["limits"] = limits
	}
	return fields
}

type keyCreate struct {
	ID string `arg:"" name:"id" help:"Id of the key, its name in the log and on the pages."`
	keyRights
	Class  string `placeholder:"CLASS" help:"Class of the key's calls, such as batch."`
	Group  string `placeholder:"GROUP" help:"Group of the file's groups whose limits the key shares."`
	Weight int    `placeholder:"N" help:"The key's share when calls wait for slots."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: the key's entry, and key, its secret."`
	edgeFlags
}

func (k *keyCreate) Help() string { return runtimeKeysHelp }

const runtimeKeysHelp = `The edge keeps such keys in the file admin.keys.file, or in the fleet's store where there is fleet.keys. It asks for admin.token, or for a token of admin.tokens with the role keys.`

func (k *keyCreate) Run() error {
	if err := k.mergeShortFlags(); err != nil {
		return err
	}
	fields := k.requestMembers(k.ID)
	if k.Class != "" {
		fields["class"] = k.Class
	}
	if k.Group != "" {
		fields["group"] = k.Group
	}
	if k.Weight != 0 {
		fields["weight"] = k.Weight
	}
	return (&admin.KeyClient{Edge: k.edge(), JSON: k.Format == formatJSON}).Create(fields, os.Stdout)
}

type keyRotate struct {
	ID      string        `arg:"" name:"id" help:"Id of the key."`
	Overlap time.Duration `default:"24h" help:"How long its present secrets stay valid; 0s: they end at once."`
	Format  string        `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: the key's entry, and key, its secret."`
	edgeFlags
}

func (k *keyRotate) Help() string { return runtimeKeysHelp }

func (k *keyRotate) Run() error {
	return (&admin.KeyClient{Edge: k.edge(), JSON: k.Format == formatJSON}).Rotate(k.ID, k.Overlap, os.Stdout)
}

type keyNew struct {
	keyStoreFlags
	Name string `help:"Id of the key in the configuration and the log." default:"new-key"`
	keyRights
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: key, its hash and, where they are printed, lines for keys: in the configuration."`
	Append string `placeholder:"FILE" help:"Append the key to this keys_file or configuration, in place of printing its lines. A file that is not there is made."`
}

// Run prints a new key. It fails if the lines for the key would be invalid in a configuration.
func (k *keyNew) Run() error {
	if k.Store && k.Append != "" {
		return usageError("key new: a key goes into the store or into a file: choose --store or --append")
	}
	if err := k.mergeShortFlags(); err != nil {
		return err
	}
	plain, hash, err := auth.NewKey()
	if err != nil {
		return err
	}
	lines, err := auth.KeyConfigYAML(k.Name, hash, k.Models, k.Operations, string(k.Expires), k.Limits, engine.KnownEngines())
	if err != nil {
		return usageError("--" + err.Error())
	}
	if k.Append != "" {
		if err := appendKey(k.Append, lines); err != nil {
			return fmt.Errorf("key new: %s: %w", k.Append, err)
		}
		err := k.printKey(createdKey{Key: plain, Hash: hash}, "only its hash is stored, in "+plaintext.CleanLine(k.Append)+".")
		printKeyWarnings(k.Append, k.Name)
		return err
	}
	if !k.Store {
		return k.printKey(createdKey{plain, hash, lines}, "only its hash is stored. Lines for `keys:` in the configuration:")
	}
	w, ctx, done, err := k.openWriter()
	if err != nil {
		return err
	}
	defer done()
	fields := k.requestMembers(k.Name)
	fields["hash"] = hash
	if err := w.Add(ctx, fields); err != nil {
		return fmt.Errorf("key new: %w", err)
	}
	return k.printKey(createdKey{Key: plain, Hash: hash}, "only its hash is stored. It is in force at all edges within a second.")
}

// createdKey is the JSON output for a new key, or for its hash only.
type createdKey struct {
	Key   string `json:"key,omitempty"`
	Hash  string `json:"hash"`
	Lines string `json:"lines,omitempty"` // YAML lines for the keys section of the configuration
}

func (k *keyNew) printKey(made createdKey, note string) error {
	if k.Format == formatJSON {
		return printJSON(made)
	}
	_, err := fmt.Printf("%s\n\n# Keep the key now: %s\n%s", made.Key, note, made.Lines)
	return err
}

// appendKey adds lines for a key to a file. It replaces the file atomically, so that an edge that
// watches the file never reads an incomplete file.
func appendKey(name, lines string) error {
	mode := os.FileMode(0o600)
	src, err := os.ReadFile(name)
	if err == nil {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := config.AppendKey(src, lines)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), ".penstock-key-*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) //nolint:errcheck // gone if it has been renamed
	_, err = next.Write(out)
	if err = errors.Join(err, next.Chmod(mode), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), name)
}

// printKeyWarnings prints the warnings about a key that `penstock check` would print. It prints
// nothing if the file is not a valid configuration.
func printKeyWarnings(name, id string) {
	f, problems := config.LoadValid(name, engine.KnownEngines())
	if f == nil {
		return // the file is a keys_file or has problems
	}
	n := slices.IndexFunc(f.Keys, func(key config.Key) bool { return key.ID == id })
	at := "keys[" + strconv.Itoa(n) + "]."
	for _, p := range problems {
		if p.Warning && strings.HasPrefix(p.Path, at) {
			fmt.Fprintln(os.Stderr, "penstock:", plaintext.CleanText(p.String()))
		}
	}
}

type keyRevoke struct {
	keyStoreFlags
	ID     string `arg:"" name:"id" help:"Id of the key."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: id, revoked and note."`
	edgeFlags
}

func (k *keyRevoke) Help() string { return runtimeKeysHelp }

func (k *keyRevoke) Run() error {
	if !k.Store {
		return (&admin.KeyClient{Edge: k.edge(), JSON: k.Format == formatJSON}).Revoke(k.ID, os.Stdout)
	}
	w, ctx, done, err := k.openWriter()
	if err != nil {
		return err
	}
	defer done()
	if err := w.Revoke(ctx, k.ID); err != nil {
		return fmt.Errorf("key revoke: %w", err)
	}
	const note = "edges refuse it within a second; running calls end as on_revoke says"
	if k.Format == formatJSON {
		return printJSON(admin.KeyChange{KeyView: admin.KeyView{ID: k.ID, Source: sourceStore}, Revoked: true, Note: note})
	}
	fmt.Println("revoked: " + note)
	return nil
}

type keyList struct {
	keyStoreFlags
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: keys, each with id, source, active, models, operations, limits and more, never a secret or a hash."`
	edgeFlags
}

func (k *keyList) Run() error {
	switch {
	case !k.Store && k.Config != "":
		return k.listConfigKeys()
	case !k.Store:
		return (&admin.KeyClient{Edge: k.edge(), JSON: k.Format == formatJSON}).List(os.Stdout)
	}
	w, ctx, done, err := k.openWriter()
	if err != nil {
		return err
	}
	defer done()
	all, err := w.List(ctx)
	if err != nil {
		return fmt.Errorf("key list: %w", err)
	}
	return k.printList(all, sourceStore)
}

const sourceStore = "store"

func (k *keyList) printList(all []keystore.ListedKey, source string) error {
	if k.Format == formatJSON {
		list := struct {
			Keys []listedKey `json:"keys"`
		}{Keys: []listedKey{}}
		for i := range all {
			view := admin.NewKeyView(&all[i].Key, source)
			view.Active = view.Active && !all[i].Revoked && all[i].Trouble == ""
			list.Keys = append(list.Keys, listedKey{view, all[i].Revoked, all[i].Trouble})
		}
		return printJSON(list)
	}
	for i := range all {
		fmt.Println(plaintext.CleanText(all[i].String()))
	}
	return nil
}

type listedKey struct {
	admin.KeyView
	Revoked bool   `json:"revoked,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why edges reject the entry; empty if they accept it
}

func (k *keyList) listConfigKeys() error {
	f, problems := config.LoadValid(k.Config, engine.KnownEngines())
	if f == nil {
		return problems
	}
	all := make([]keystore.ListedKey, len(f.Keys))
	for i := range f.Keys {
		all[i].Key = f.Keys[i]
	}
	return k.printList(all, "configuration")
}

type keyHash struct {
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: hash."`
}

func (k *keyHash) Run() error {
	var plain string
	if _, err := fmt.Fscanln(os.Stdin, &plain); err != nil {
		return fmt.Errorf("key hash: give the key on standard input, in one line and without blanks: %w", err)
	}
	if err := auth.CheckKey(plain); err != nil {
		return fmt.Errorf("key hash: %w", err)
	}
	if auth.IsGuessable(plain) {
		fmt.Fprintln(os.Stderr, "penstock: this key can be guessed from its hash, or by trying often enough. Use `penstock key new`, or 20 random characters or more.")
	}
	hash := auth.HashKey(plain)
	if k.Format == formatJSON {
		return printJSON(createdKey{Hash: hash})
	}
	fmt.Println(hash)
	return nil
}
