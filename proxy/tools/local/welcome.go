package local

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"penstock/config"
	"penstock/proxy/front/plaintext"
)

// welcomeText returns the text printed at a start without a configuration file. It contains the
// engines and models, the base URLs, the key, and a command to try.
func welcomeText(f *config.File, public, admin string, key clientKey) string {
	var b strings.Builder
	for _, u := range f.Upstreams {
		fmt.Fprintf(&b, "Engine    %s (%s)\n", plaintext.CleanLine(u.URL), u.Engine)
	}
	for _, m := range f.Models {
		fmt.Fprintf(&b, "Model     %s\n", plaintext.CleanLine(m.ID))
	}
	fmt.Fprintf(&b, "Base URL  %s/v1\nAPI key   %s\nStatus    %s/\n\n", public, key.description(), admin)
	chat := slices.IndexFunc(f.Models, func(m config.Model) bool { return m.Kind == config.ModelKindChat })
	if chat < 0 {
		return b.String()
	}
	b.WriteString("Try it:\n\n")
	fmt.Fprintf(&b,
		"curl -N %s/v1/chat/completions -H %s -H 'Content-Type: application/json' \\\n", public, key.authHeader())
	fmt.Fprintf(&b,
		"  -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],\"stream\":true}'\n\n", escapeForShells(f.Models[chat].ID))
	return b.String()
}

// description describes the key. The text includes the key only if it was not read from a file.
func (k *clientKey) description() string {
	switch {
	case k.file == "":
		return k.plain + "   (made for this run)"
	case k.wasCreated:
		return k.plain + "   (made now, and written to " + plaintext.CleanLine(k.file) + ")"
	}
	return "that of " + plaintext.CleanLine(k.file)
}

func (k *clientKey) authHeader() string {
	if k.file == "" || k.wasCreated {
		return "'Authorization: Bearer " + k.plain + "'"
	}
	return `"Authorization: Bearer $(cat '` + strings.ReplaceAll(k.file, "'", `'\''`) + `')"`
}

// escapeForShells escapes s for a JSON string inside single quotes on a command line. s was chosen
// by an engine, and shells differ in which characters they interpret inside quotes. escapeForShells
// therefore escapes every character that any shell might interpret.
func escapeForShells(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		switch c := rune(unit); {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c < 0x80 &&
			strings.ContainsRune(" -_.:/@+=,", c):
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
