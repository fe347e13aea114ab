package pages

import (
	"strings"
	"sync"

	"penstock/bench/sim/wire"
	"penstock/proxy/template"
)

// dialects are the templates of Messages and Responses by the dialect's name. A section is what
// happens to an answer; each of its lines is an event: a name, a blank and members beside the type.
var dialects = sync.OnceValue(func() map[string]*template.Set {
	sets := map[string]*template.Set{}
	for _, name := range []string{"messages", "responses"} {
		sets[name] = template.Text("<<", ">>", template.Funcs{
			"json": func(s string) string { return string(wire.AppendString(nil, s)) },
		})
		for _, one := range sections(name) {
			sets[name].Must(one.head, strings.TrimSuffix(continued.Replace(one.body), "\n"))
		}
	}
	return sets
})

// continued joins a line with the one before.
var continued = strings.NewReplacer("\n\t", "")

// Tell renders a section of a dialect.
func Tell(dialect, section string, about any) []byte {
	text, err := dialects()[dialect].Render(section, about)
	if err != nil {
		panic("BUG: " + dialect + ": " + err.Error())
	}
	return text
}
