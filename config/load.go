package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"penstock/config/strictyaml"
)

// Problem is a mistake in a configuration, with its position and remedy.
type Problem = strictyaml.Problem

// Problems contains all mistakes found in one run.
type Problems = strictyaml.Problems

// fileReadRecord describes where a File was read from.
type fileReadRecord struct {
	positions    *strictyaml.Positions
	readWarnings Problems // warnings from reading the file; Validate returns them too
	files        []string // files that were read, or that the configuration names

	// hashes of certificate files, keyed by the path in a ChangedSetting
	certificates map[string][sha256.Size]byte

	keyless    bool // the keys_file states that it has no keys
	hasSecrets bool // the file contains keys or a secret

	digest hash.Hash // hash of the file and the keys_file
}

// Load reads the configuration at path and everything that it references: environment variables,
// secrets in files, and the keys_file. The error is of type Problems. It contains all mistakes
// found: invalid syntax, unknown and repeated keys, malformed values and missing references. Load
// does not check constraints that involve more than one value. Use Validate or LoadValid for that.
func Load(path string) (*File, error) {
	f, problems := load(path, strictyaml.ReadBounded)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Parse is like Load, but reads a source in memory. Problems use name as the file name, and
// relative paths in the source are resolved against its directory. Parse reads the environment and
// the files that the source references.
func Parse(name string, src []byte) (*File, error) {
	f, problems := parse(name, src)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// LoadValid reads the configuration at path and validates it, so that one run finds mistakes of
// every kind. If Problems.Err returns an error, the File is nil. Otherwise all problems are
// warnings. more contains additional checks.
func LoadValid(path string, k KnownProfiles, more ...CheckFunc) (*File, Problems) {
	f, problems := load(path, strictyaml.ReadBounded)
	return validateLoaded(f, problems, k, more)
}

// LoadForReload is like LoadValid, but for a reload. The file must be a regular file. A start may
// read a pipe, but in a reload a pipe could block forever. files are the referenced files, even if
// the File is nil, because a change to one of them may mend it.
func LoadForReload(path string, k KnownProfiles) (f *File, problems Problems, files []string) {
	if f, problems = load(path, strictyaml.ReadRegular); f != nil {
		files = f.ReferencedFiles()
	}
	f, problems = validateLoaded(f, problems, k, nil)
	return f, problems, files
}

// MaxFileBytes is the maximum size of a configuration in bytes.
const MaxFileBytes = strictyaml.MaxFileBytes

// ReadText reads a configuration without parsing it.
func ReadText(path string) ([]byte, error) { return strictyaml.ReadBounded(path, MaxFileBytes) }

// CheckFunc returns problems with a File. It must tolerate a File that has other mistakes.
type CheckFunc func(*File) Problems

// ParseValid is like LoadValid, but reads a source in memory. name has the same meaning as in
// Parse.
func ParseValid(name string, src []byte, k KnownProfiles, more ...CheckFunc) (*File, Problems) {
	f, problems := parse(name, src)
	return validateLoaded(f, problems, k, more)
}

// Decode binds a YAML document to the struct *into, as strictly as Load. It is for packages that
// use types of this package in other files. It resolves environment variables. The error is of type
// Problems.
func Decode(name string, src []byte, into any) error {
	return strictyaml.Read(name, src, into, strictyaml.Options{Least: "write it, or leave it out"}).Problems().Err()
}

// ProblemAt returns a Problem for a mistake that the caller found in the value at path, such as
// models[2].deployments. If f was read from a file, the Problem has a position and an excerpt.
func (f *File) ProblemAt(path, message string) Problem {
	if f.positions().IsBroken(path) { // already reported
		return Problem{Path: path, Message: message}
	}
	return f.positions().ProblemAt(path, message)
}

// SetFileName changes the file name in later problems about f.
func SetFileName(f *File, name string) { f.origin.positions.SetFileName(name) }

// positions returns the positions of f's values, or nil if f was not read from a text.
func (f *File) positions() *strictyaml.Positions {
	if f.origin == nil {
		return nil
	}
	return f.origin.positions
}

// ReferencedFiles returns all files that the configuration was read from or that it names: the
// file, the keys_file, certificates, and files with secrets.
func (f *File) ReferencedFiles() []string {
	if f.origin == nil {
		return nil
	}
	return f.origin.files
}

func validateLoaded(f *File, problems Problems, k KnownProfiles, more []CheckFunc) (*File, Problems) {
	if f != nil && len(problems.Errors()) < strictyaml.MaxProblems {
		problems = append(problems.Errors(), f.Validate(k)...)
		for _, check := range more {
			problems = append(problems, check(f)...)
		}
		problems.Sort()
	}
	if problems.Err() != nil {
		return nil, problems
	}
	return f, problems
}

func load(path string, read func(string, int64) ([]byte, error)) (*File, Problems) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, not a file", path)
	} else if err != nil {
		err = strictyaml.FileError(path, err)
	}
	var src []byte
	if err == nil {
		src, err = read(path, strictyaml.MaxFileBytes)
	}
	if err != nil {
		return nil, Problems{{File: path, Message: strings.TrimPrefix(err.Error(), path+" ")}}
	}
	f, problems := parse(path, src)
	if f != nil {
		f.origin.files = append([]string{path}, f.origin.files...)
		if f.origin.hasSecrets {
			problems = append(problems, warnReadableByOthers(path, info)...)
		}
		problems.Sort()
		f.origin.readWarnings = problems.Warnings()
	}
	return f, problems
}

// parse returns a File if the source is valid YAML. A value that could not be read keeps its
// default, so that Validate can find other mistakes.
func parse(name string, src []byte) (*File, Problems) {
	f := Defaults()
	d := strictyaml.Read(name, src, f, strictyaml.Options{
		Least: "write at least keys, upstreams and models", Retired: removedSettings,
	})
	if !d.HasContent {
		return nil, d.Problems()
	}
	f.origin = &fileReadRecord{positions: d.Positions, files: d.Files, hasSecrets: d.HasSecret || len(f.Keys) > 0, digest: sha256.New()}
	f.origin.digest.Write(src)
	f.normalize(filepath.Dir(name))
	f.hashCertificateFiles(d)
	problems := d.Problems()
	if f.KeysFile != "" && !d.Positions.IsOrContainsBroken("keys_file") {
		problems = append(problems, f.readKeys()...)
	}
	problems.Sort()
	f.deriveSettings()
	f.origin.readWarnings = problems.Warnings()
	return f, problems
}

// Digest returns a short hash of the file and the keys_file. The edges of a fleet use it to compare
// their configurations. It returns "" if f was not read from a text.
func (f *File) Digest() string {
	if f.origin == nil {
		return ""
	}
	return hex.EncodeToString(f.origin.digest.Sum(nil)[:6])
}

func (f *File) normalize(dir string) {
	store := &f.Fleet.Store.TLS
	for _, p := range []*string{
		&f.KeysFile, &f.Ledger.Path, &f.TLS.Cert, &f.TLS.Key, &f.TLS.ClientCA,
		&f.Admin.TLS.Cert, &f.Admin.TLS.Key, &f.Admin.Keys.File,
		&store.CA, &store.Cert, &store.Key, &f.Fleet.Keys.Cache, &f.TLS.ACME.Folder, &f.TLS.ACME.CA,
	} {
		*p = strictyaml.ResolvePath(dir, *p)
	}
	for i, name := range f.TLS.ACME.Domains {
		f.TLS.ACME.Domains[i] = strings.ToLower(name)
	}
	for i := range f.Issuers {
		is := &f.Issuers[i]
		if name := is.jwksFile(); name != "" {
			is.JWKS = keysFilePrefix + strictyaml.ResolvePath(dir, name)
		}
		if u, err := url.Parse(is.Issuer); is.Name == "" && err == nil {
			is.Name = cmp.Or(u.Hostname(), is.Issuer)
		}
	}
	for i := range f.Ledger.Export {
		to := &f.Ledger.Export[i]
		to.File = strictyaml.ResolvePath(dir, to.File)
	}
	for i := range f.Keys {
		f.Keys[i].Certificate.canonicalize()
	}
	for i := range f.Upstreams {
		u := &f.Upstreams[i]
		u.URL = strings.TrimRight(u.URL, "/")
		for _, p := range []*string{&u.TLS.CA, &u.TLS.Cert, &u.TLS.Key, &u.Kubernetes.Account} {
			*p = strictyaml.ResolvePath(dir, *p)
		}
	}
}

// hashCertificateFiles checks that the certificates and key sets of f are readable, and stores their
// hashes for Same and Diff. It does not check their contents.
func (f *File) hashCertificateFiles(d *strictyaml.Document) {
	f.origin.certificates = map[string][sha256.Size]byte{}
	check := func(path, called, name string) (content []byte) {
		if name == "" {
			return nil
		}
		f.origin.files = append(f.origin.files, name)
		content, err := strictyaml.ReadRegular(name, 1<<20)
		if err != nil {
			d.Fail(path, err.Error())
			return nil
		}
		f.origin.certificates[called] = sha256.Sum256(content)
		return content
	}
	check("tls.cert", "tls.cert", f.TLS.Cert)
	check("tls.key", "tls.key", f.TLS.Key)
	check("admin.tls.cert", "admin.tls.cert", f.Admin.TLS.Cert)
	check("admin.tls.key", "admin.tls.key", f.Admin.TLS.Key)
	f.TLS.ClientCAs = check("tls.client_ca", "tls.client_ca", f.TLS.ClientCA)
	f.TLS.ACME.CAs = check("tls.acme.ca", "tls.acme.ca", f.TLS.ACME.CA)
	check("fleet.store.tls.ca", "fleet.store.tls.ca", f.Fleet.Store.TLS.CA)
	check("fleet.store.tls.cert", "fleet.store.tls.cert", f.Fleet.Store.TLS.Cert)
	check("fleet.store.tls.key", "fleet.store.tls.key", f.Fleet.Store.TLS.Key)
	for i := range f.Issuers {
		is := &f.Issuers[i]
		is.Set = check(entryPath("issuers", i)+".jwks", "issuers["+is.Issuer+"].jwks", is.jwksFile())
	}
	for i, u := range f.Upstreams {
		at, called := entryPath("upstreams", i)+".tls.", "upstreams["+u.Name+"].tls."
		check(at+"ca", called+"ca", u.TLS.CA)
		check(at+"cert", called+"cert", u.TLS.Cert)
		check(at+"key", called+"key", u.TLS.Key)
	}
}
