package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"penstock/config/strictyaml"
)

// Redacted is a configuration without secrets.
type Redacted struct {
	Text []byte // nil if the file is not YAML, because its secrets are then unknown
	Keys []byte // the redacted keys_file, or nil
	// Secrets contains the removed texts, and the contents of variables and files that contain
	// secrets.
	Secrets []string
	Admin   Admin // read from the file, if possible
}

// Redact reads the file at path and removes
//
//   - values of type Secret and key hashes
//   - the parts of URLs that may contain credentials
//   - words that look like credentials
//   - unknown settings
//   - comments
//
// The file need not be valid.
func Redact(path string) (Redacted, error) {
	src, err := strictyaml.ReadBounded(path, strictyaml.MaxFileBytes)
	if err != nil {
		return Redacted{}, err
	}
	var r Redacted
	r.Text = r.redactSource(src, reflect.TypeFor[File]())
	f, _ := parse(path, src)
	if f == nil {
		return r, nil
	}
	r.Admin = f.Admin
	r.Secrets = append(r.Secrets, secretsIn(reflect.ValueOf(*f))...)
	if f.KeysFile != "" {
		if src, err = strictyaml.ReadRegular(f.KeysFile, strictyaml.MaxFileBytes); err == nil {
			r.Keys = r.redactSource(src, reflect.TypeFor[keysFile]())
		}
	}
	return r, nil
}

func (r *Redacted) redactSource(src []byte, to reflect.Type) []byte {
	text, left, _ := strictyaml.Redact(src, to, strictyaml.RedactionRules{Secret: isSecret, Text: redactText})
	r.Secrets = append(r.Secrets, left...)
	r.Secrets = append(r.Secrets, findCredentials(string(src))...)
	return text
}

// isSecret reports whether values of type t are secrets. Such settings are writeOnly in
// schema.json.
func isSecret(t reflect.Type) bool { return t == reflect.TypeFor[Secret]() }

// secretsIn returns the secrets in a value, in the form in which they are sent.
func secretsIn(v reflect.Value) (all []string) {
	if s, ok := v.Interface().(Secret); ok {
		return []string{s.Value()}
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range strictyaml.Fields(v.Type()) {
			all = append(all, secretsIn(v.Field(f.Index))...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, secretsIn(v.Index(i))...)
		}
	}
	return all
}

// hiddenSettings are removed even though they are not of type Secret, because they contain mail
// addresses or key hashes. secretURLPaths are settings that contain URLs. The paths of these URLs
// may contain a secret, as is common for webhooks.
var (
	hiddenSettings = []string{"keys.hash", "keys.hash.hash", "tls.acme.email"}
	secretURLPaths = []string{"upstreams.wake.url", "ledger.export.url", "hooks.before", "hooks.after", "tracing.otlp"}
)

// credentialPattern matches words that look like a credential: a word that starts like the keys of
// a well-known service, a UUID, or a word of at least 24 letters and digits. Model names and host
// names do not match.
var credentialPattern = regexp.MustCompile(`\b(?:` + strings.Join([]string{
	`(?:sk|rk|pk)[-_][A-Za-z0-9_-]{8,}`,
	`(?:hf|gsk|gh[oprsu]|github_pat|pstk|r8|tgp_v1)_[A-Za-z0-9_-]{12,}`,
	`(?:glpat|nvapi|xox[aboprs])-[A-Za-z0-9_-]{12,}`,
	`(?:AKIA|ASIA)[A-Z0-9]{12,}`, `AIza[A-Za-z0-9_-]{20,}`, `eyJ[A-Za-z0-9_.-]{16,}`,
	`[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`,
	`[A-Za-z0-9]{24,}`,
}, "|") + `)`)

func findCredentials(text string) (words []string) {
	for _, w := range credentialPattern.FindAllString(text, -1) {
		if strings.ContainsAny(w, "0123456789") { // a word without digits is just a long name
			words = append(words, w)
		}
	}
	return words
}

// redactText returns a string without its secret parts. It removes the user, password and query
// from a URL. It removes misplaced credentials from every string.
func redactText(path, text string) string {
	text = redactSetting(path, text)
	for _, w := range findCredentials(text) {
		text = strings.ReplaceAll(text, w, strictyaml.RemovedText)
	}
	return text
}

// redactSetting returns the part of a text that may be shown, depending on the setting's path.
func redactSetting(path, text string) string {
	if slices.Contains(hiddenSettings, path) || strings.ContainsAny(text, "\r\n") ||
		strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "pstk_") {
		return strictyaml.RemovedText
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		if scheme, rest = "", text; !strings.HasSuffix(path, "url") {
			return text
		}
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	address, more := rest[:end], ""
	if end < len(rest) {
		more = "?" + strictyaml.RemovedText
		// a password may contain characters that usually end a URL
		if strings.Contains(rest[end:], "@") {
			return scheme + strictyaml.RemovedText
		}
	}
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		address = strictyaml.RemovedText + address[i:]
	}
	if slices.Contains(secretURLPaths, path) {
		if host, _, found := strings.Cut(address, "/"); found {
			address = host + "/" + strictyaml.RemovedText
		}
	}
	return scheme + address + more
}
