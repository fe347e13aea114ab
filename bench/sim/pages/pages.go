package pages

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

//go:embed *.txtar
var pageFiles embed.FS

// Set contains the pages of one engine.
type Set struct {
	p         *profile.Profile
	templates *template.Template
	types     map[string]string
}

// New returns the pages of a profile.
func New(p *profile.Profile) *Set {
	s := &Set{p, template.New("").Delims("<<", ">>").Funcs(templateFuncs), map[string]string{}}
	for _, one := range pageSources(p) {
		template.Must(s.templates.New(one.path).Parse(one.body))
		s.types[one.path] = one.ctype
	}
	return s
}

// templateFuncs contains the functions that page templates can call, in addition to the methods of
// State.
var templateFuncs = template.FuncMap{
	"json": func(s string) string { return string(wire.AppendString(nil, s)) },
	"null": func(s string) string { return string(*new(wire.JSONBuilder).QuoteOrNull(s)) },
	"path": constantFunc(profile.LeakedPath), "host": constantFunc(profile.LeakedHost),
	"secret": constantFunc(profile.LeakedSecret), "voices": func() []string { return profile.KokoroVoices },
	"owner": func(model string) string { return strings.SplitN(model, "/", 2)[0] },

	"add": func(a, b any) int64 { return toInt64(a) + toInt64(b) }, "sub": func(a, b any) int64 { return toInt64(a) - toInt64(b) },
	"div": func(a, b int) float64 { return float64(a) / float64(max(1, b)) },
}

// toInt64 converts an int or int64 in State to int64.
func toInt64(v any) int64 {
	if n, ok := v.(int); ok {
		return int64(n)
	}
	return v.(int64)
}

// pageSource is the template of a page or of a part of a page, with its Content-Type.
type pageSource struct{ path, body, ctype string }

func pageSources(p *profile.Profile) (out []pageSource) {
	names := map[string]string{"json": p.JSONType, "text": p.TextType, "none": ""}
	for _, name := range slices.Compact([]string{"common", p.Family, p.Name}) {
		for _, one := range readArchiveSections(name) {
			paths, body := strings.Fields(one.head), one.body
			n := 1 + max(0, slices.IndexFunc(paths[1:], func(f string) bool { return f[0] != '/' }))
			ctype, known := names[strings.Join(paths[n:], " ")]
			if !known {
				ctype = strings.Join(paths[n:], " ")
			}
			switch body = strings.TrimSuffix(body, "\n") + "\n"; {
			case strings.Contains(ctype, "json"):
				body = indentPattern.ReplaceAllString(body, "")
			case strings.Count(body, "\n") == 1:
				body = strings.TrimSpace(body)
			}
			for _, path := range paths[:n] {
				out = append(out, pageSource{path, body, ctype})
			}
		}
	}
	return out
}

// archiveSection is a section in a txtar file. It consists of the name between dashes and the text
// below it.
type archiveSection struct{ head, body string }

// readArchiveSections returns the sections of a file, or none if the file does not exist.
func readArchiveSections(name string) (out []archiveSection) {
	text, err := fs.ReadFile(pageFiles, name+".txtar")
	if err != nil {
		return nil
	}
	for _, one := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		head, body, _ := strings.Cut(one, " --\n")
		out = append(out, archiveSection{head, body})
	}
	return out
}

func constantFunc(s string) func() string { return func() string { return s } }

// indentPattern matches insignificant white space in JSON.
var indentPattern = regexp.MustCompile(`\n[ \t]*`)

// HasPage reports whether the engine has a page.
func (s *Set) HasPage(path string) bool {
	return path != "" && path[0] == '/' && s.templates.Lookup(path) != nil
}

// RenderPage renders a page.
func (s *Set) RenderPage(path string, st *State) profile.Reply {
	st.reply = profile.Reply{Status: 200, Type: s.types[path]}
	st.reply.Body = s.render(path, st)
	return st.reply
}

func (s *Set) render(section string, about any) []byte {
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, section, about); err != nil {
		panic("BUG: " + section + " of " + s.p.Name + ": " + err.Error())
	}
	return b.Bytes()
}

// State contains the state of an engine that its pages show.
type State struct {
	*profile.Profile
	Variant bool     // the engine is a variant of its family's engine
	Models  []string // served names
	Model   string   // the first served name, or empty
	// First is the model name in responses to requests without a model; Sim is that in responses to
	// requests for "sim"
	First, Sim string
	Name       string // name of the model to show
	Loaded     func(model string) bool
	Parent     func(model string) string // returns the base model of an adapter, or empty

	Adapters     bool   // the engine serves adapters
	UsedAdapters string // adapters in use, separated by commas
	Sick         bool
	Asleep       bool
	Query        string
	Addr         string

	Created              int64  // start time of the engine
	Started              string // Created as text
	Context              int    // context length in tokens
	Slots                int
	Residents            int // maximum number of loaded models
	Running              int
	Waiting              int
	Used                 int // number of cache tokens used by running requests
	KVSize               int
	KVBlocks, UsedBlocks int
	HitRate              float64
	Speed                float64 // tokens per second
	Idle                 func() bool

	PrefillRate, TokenRate                        float64
	Requests, Completed, Aborted, Rejected        int64
	Generated, Prompted, Cached, Preempted, Steps int64
	CacheAsked, CacheHit                          int64
	QueueTime, TTFT, Total                        *Histogram
	reply                                         profile.Reply
}

// Of returns a copy of the state in which one model is selected.
func (s *State) Of(model string) *State {
	one := *s
	one.Name = model
	return &one
}

// Reply sets the status and the Content-Type of the page. It returns "".
func (s *State) Reply(status int, ctype string) string {
	s.reply.Status, s.reply.Type = status, ctype
	return ""
}

// Line adds a header line. It returns "".
func (s *State) Line(name string, v any) string {
	s.reply.Lines += fmt.Sprintf("%s: %v\r\n", name, v)
	return ""
}

// Time returns the time that is the given number of seconds from now.
func (s *State) Time(in int) string {
	return time.Now().Add(time.Duration(in) * time.Second).UTC().Format(time.RFC3339)
}

// Now returns the Unix time in seconds.
func (s *State) Now() string {
	return strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
}

// Asks reports whether the query contains a string.
func (s *State) Asks(part string) bool { return strings.Contains(s.Query, part) }

// Digest returns a digest for the selected model.
func (s *State) Digest() string {
	for i, n := range s.Models {
		if n == s.Name {
			return profile.Hex32(uint64(i))
		}
	}
	return ""
}

// Work returns the path for the engine's main kind of work.
func (s *State) Work() string {
	if s.SupportsKind("transcriptions") {
		return "/v1/audio/transcriptions"
	}
	return "/inference"
}

// Labels returns the labels of a metric series.
func (s *State) Labels() string { return `model_name="` + s.Model + `"` }
