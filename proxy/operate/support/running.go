package support

import (
	"bytes"
	"encoding/json"
	"strings"

	"penstock/config/strictyaml"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/admin"
)

// fetchEdgePages returns the pages of a running edge. If the edge does not respond, fetchEdgePages
// queries it only once.
func fetchEdgePages(at admin.Edge) []bundleFile {
	parts := []bundleFile{
		{name: "status.json", description: "the status page, as JSON"},
		{name: "events.txt", description: "what has happened last, newest first"},
		{name: "metrics.txt", description: "the metrics page"},
		{name: "process.json", description: "limits of the process: descriptors, memory, processors"},
		{name: "goroutines.txt", description: "what the process does, as functions and lines"},
		{name: "heap.txt", description: "what its heap holds, by function"},
	}
	paths := []string{"/status", "", "/metrics", "/-/process", "/-/goroutines", "/-/heap"}
	missing := ""
	for i := range parts {
		p := &parts[i]
		if p.missingReason = missing; missing != "" || paths[i] == "" {
			continue
		}
		body, err := admin.FetchPage(at, paths[i])
		switch {
		case err != nil && i == 0:
			missing = err.Error()
			p.missingReason = missing
		case err != nil: // older edges lack some pages
			p.missingReason = err.Error()
		case i == 0:
			p.content, parts[1].content, err = anonymizeStatus(body)
			if err != nil {
				missing = at.Admin + " did not answer like a Penstock admin listener"
				p.missingReason = missing
			}
		default:
			p.content = []byte(plaintext.CleanText(string(body)))
		}
	}
	return parts
}

// anonymizeStatus returns an edge's state without the names of people, and its events as lines.
func anonymizeStatus(body []byte) (state, events []byte, err error) {
	var all map[string]any
	read := json.NewDecoder(bytes.NewReader(body))
	read.UseNumber()
	if err := read.Decode(&all); err != nil {
		return nil, nil, err
	}
	list, _ := all["events"].([]any)
	var lines strings.Builder
	for _, e := range list {
		e, _ := e.(map[string]any)
		var words []string
		for _, name := range []string{"at", "kind", "level", "who", "text"} {
			if word, ok := e[name].(string); ok && word != "" {
				words = append(words, word)
			}
		}
		lines.WriteString(plaintext.CleanLine(strings.Join(words, "  ")) + "\n")
	}
	anonymizeValues(all, issuerNames(all))
	text, err := json.MarshalIndent(all, "", "  ")
	return append(plaintext.EscapeJSON(text), '\n'), []byte(lines.String()), err
}

// issuerNames returns the names of the token issuers. The id of a caller with a token is
// NAME/SUBJECT.
func issuerNames(all map[string]any) (names []string) {
	list, _ := all["issuers"].([]any)
	for _, i := range list {
		i, _ := i.(map[string]any)
		if name, ok := i["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func anonymizeValues(v any, issuers []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			anonymizeValues(e, issuers)
		}
	case map[string]any:
		for name, e := range v {
			text, isText := e.(string)
			switch {
			case !isText:
				anonymizeValues(e, issuers)
			case name == "mode_who":
				v[name] = strictyaml.RemovedText
			case name == "key" || name == "id":
				v[name] = removeTokenSubject(text, issuers)
			}
		}
	}
}

func removeTokenSubject(id string, issuers []string) string {
	for _, name := range issuers {
		if strings.HasPrefix(id, name+"/") {
			return name + "/" + strictyaml.RemovedText
		}
	}
	return id
}
