package pages

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"text/template"

	"penstock/bench/sim/wire"
)

// answers maps file names to response templates.
var answers = sync.OnceValue(func() map[string]*template.Template {
	sets := map[string]*template.Template{}
	for _, name := range []string{"chat", "transcript"} {
		sets[name] = template.New("").Delims("<<", ">>").Funcs(template.FuncMap{
			"json":  func(s string) string { return string(wire.AppendString(nil, s)) },
			"null":  func(s string) string { return string(*new(wire.Members).QuoteOrNull(s)) },
			"stamp": stamp,
		})
		for _, one := range sections(name) {
			template.Must(sets[name].New(one.head).Parse(strings.TrimSuffix(continued.Replace(one.body), "\n")))
		}
	}
	return sets
})

// continued joins a continuation line to the line before it.
var continued = strings.NewReplacer("\n\t", "")

// Tell renders a section of the response templates.
func Tell(kind, section string, about any) []byte {
	var b bytes.Buffer
	if err := answers()[kind].ExecuteTemplate(&b, section, about); err != nil {
		panic("BUG: " + kind + ": " + err.Error())
	}
	return b.Bytes()
}

func stamp(seconds float64, comma string) string {
	ms := int(math.Round(seconds * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, comma, ms%1000)
}

// forms caches rendered sections by kind, name and data.
var forms sync.Map

// Form renders a section and caches the result for equal data. The data must be comparable, and
// must contain placeholders instead of the varying texts.
func Form(kind, section string, about any) string {
	key := [3]any{kind, section, about}
	if text, ok := forms.Load(key); ok {
		return text.(string)
	}
	text := string(Tell(kind, section, about))
	forms.Store(key, text)
	return text
}
