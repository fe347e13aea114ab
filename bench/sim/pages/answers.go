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

// answerTemplates maps file names to response templates.
var answerTemplates = sync.OnceValue(func() map[string]*template.Template {
	sets := map[string]*template.Template{}
	for _, name := range []string{"chat", "transcript"} {
		sets[name] = template.New("").Delims("<<", ">>").Funcs(template.FuncMap{
			"json":  func(s string) string { return string(wire.AppendString(nil, s)) },
			"null":  func(s string) string { return string(*new(wire.JSONBuilder).QuoteOrNull(s)) },
			"stamp": formatTimestamp,
		})
		for _, one := range readArchiveSections(name) {
			template.Must(sets[name].New(one.head).Parse(strings.TrimSuffix(lineJoiner.Replace(one.body), "\n")))
		}
	}
	return sets
})

// lineJoiner joins a continuation line to the line before it.
var lineJoiner = strings.NewReplacer("\n\t", "")

// RenderAnswer renders a section of the response templates.
func RenderAnswer(kind, section string, about any) []byte {
	var b bytes.Buffer
	if err := answerTemplates()[kind].ExecuteTemplate(&b, section, about); err != nil {
		panic("BUG: " + kind + ": " + err.Error())
	}
	return b.Bytes()
}

func formatTimestamp(seconds float64, comma string) string {
	ms := int(math.Round(seconds * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, comma, ms%1000)
}

// renderCache caches rendered sections by kind, name and data.
var renderCache sync.Map

// RenderCached renders a section and caches the result for equal data. The data must be comparable,
// and must contain placeholders instead of the varying texts.
func RenderCached(kind, section string, about any) string {
	key := [3]any{kind, section, about}
	if text, ok := renderCache.Load(key); ok {
		return text.(string)
	}
	text := string(RenderAnswer(kind, section, about))
	renderCache.Store(key, text)
	return text
}
