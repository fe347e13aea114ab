package template

import (
	"bytes"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"testing"
	texttemplate "text/template"
	"time"
)

type row struct {
	Name  string
	Count int
	Big   uint64
	Share float64
	Next  *row
	Tags  []string
	When  time.Duration
}

func (r *row) Idle() bool                   { return r.Count == 0 }
func (r *row) Times(n int, s string) string { return strings.Repeat(s, n*r.Count) }
func (r row) Fails() (string, error)        { return "", errors.New("broken") }

type text struct{ s string }

func (t *text) String() string { return "text:" + t.s }

type data struct {
	*row
	Rows   []row
	Ptrs   []*row
	Map    map[string]int
	Any    any
	None   any
	Zero   *row
	Word   string
	Evil   string
	Text   text
	Texts  []text
	Func   func(int) string
	Cap    [2]int
	Times2 int
}

func sample() *data {
	a, b := row{Name: "a", Count: 2, Big: 7, Share: 0.25, Tags: []string{"x", "y"}, When: time.Second}, row{Name: `b<>"&'+`}
	a.Next = &b
	return &data{
		row: &a, Rows: []row{a, b}, Ptrs: []*row{&a, &b}, Map: map[string]int{"z": 1, "a": 2, "m": 0}, Any: 3, Word: "word",
		Evil: "<script>alert(\"1\" + '2')</script>\x00 é", Text: text{"t"}, Texts: []text{{"u"}}, Func: func(n int) string { return fmt.Sprint("f", n) },
	}
}

var funcs = Funcs{
	"upper": strings.ToUpper, "half": func(f float64) float64 { return f / 2 }, "join": func(sep string, all ...string) string { return strings.Join(all, sep) },
	"byptr": func(r *row) string { return "p" + r.Name }, "byvalue": func(r row) string { return "v" + r.Name }, "fails": func() (int, error) { return 0, errors.New("no") },
	"nilmap": func() map[string]int { return nil },
}

// methods are what the renderer is told of; the standard library finds them by itself.
var methods = Funcs{"Idle": (*row).Idle, "Times": (*row).Times, "Fails": row.Fails}

var templates = []string{
	"plain", "{{.Word}}", "{{.Evil}}", `<a b="{{.Evil}}">{{.Evil}}</a>`, "{{.Name}} {{.Count}} {{.Big}} {{.Share}} {{.When}} {{.Tags}} {{.Cap}}",
	"{{.Next.Name}}{{.Next.Idle}}{{.Next.Next}}", `{{with index .Ptrs 0}}{{.Times 2 "ab"}}|{{"ab" | .Times 1}}|{{(.Times 1 "q") | upper}}{{end}}`,
	"{{range .Rows}}[{{.Name}}{{if .Idle}} idle{{else}} {{.Count}}{{end}}{{$.Word}}]{{end}}", "{{range $i, $r := .Rows}}{{if $i}}, {{end}}{{$r.Name}}{{byptr $r}}{{byvalue $r}}{{end}}",
	"{{range $r := .Ptrs}}{{$r.Name}}{{byptr $r}}{{byvalue .}}{{end}}", "{{range .None}}x{{else}}none{{end}}", "{{range .Tags}}{{.}}{{else}}no{{end}}", "{{range $k, $v := .Map}}{{$k}}={{$v}};{{end}}", "{{range .Map}}{{.}}{{end}}",
	"{{range $i := 3}}{{$i}}{{end}}{{range 2}}.{{end}}{{range $i := .Count}}{{$i}}{{end}}", "{{range nilmap}}x{{else}}nil{{end}}",
	"{{with .Word}}{{.}}{{else}}none{{end}}{{with .Zero}}x{{else}}zero{{end}}{{with $x := .Count}}{{$x}}{{.}}{{end}}", "{{with .None}}a{{else with .Word}}b{{.}}{{end}}",
	"{{if and .Word .Count}}1{{end}}{{if or .Zero .None}}2{{else}}3{{end}}{{if not .Zero}}4{{end}}{{or .None .Word}}{{and .Word .Count}}{{if or .Word fails}}5{{end}}",
	"{{if eq .Word \"a\" \"word\"}}1{{end}}{{if ne .Count 2}}2{{end}}{{if lt .Count 3}}3{{end}}{{if ge .Share 0.25}}4{{end}}{{if gt .Big 6}}5{{end}}{{if le 1.5 .Share}}6{{end}}{{if eq .Next.Idle true}}7{{end}}{{if ge .Share 0.0}}8{{end}}",
	"{{if lt .Count .Big}}1{{end}}{{if gt .Big .Count}}2{{end}}{{if eq .Count .Big}}3{{end}}", "{{$x := 1}}{{if .Word}}{{$x = 2}}{{$y := 3}}{{$y}}{{end}}{{$x}}",
	"{{len .Rows}} {{len .Word}} {{len .Map}} {{index .Tags 1}} {{index .Map \"z\"}} {{index .Map \"none\"}} {{(index .Rows 1).Name}} {{.Map.m}} {{.Map.none}}",
	"{{print 1 2 \"a\" \"b\"}} {{printf \"%04d %s %.2f\" .Count .Word .Share}} {{.Word | printf \"%s-%s\" \"x\"}}", "{{half 3}} {{half .Share}} {{half 1.5}} {{join \"+\" \"a\" .Word}} {{join \".\"}}",
	"{{call .Func 3}}", "{{.Text}}{{.Any}}{{range .Texts}}{{.}}{{end}}", "{{define \"t\"}}[{{.}}]{{end}}{{template \"t\" .Word}}{{template \"t\" upper .Word}}{{range .Tags}}{{template \"t\" .}}{{end}}",
	"a {{- .Word -}} b {{/* nothing */}} c", "{{true}} {{1}} {{1.5}} {{\"s\"}} {{'a'}} {{0x10}}", "{{$.Word}}{{$.Next.Count}}", "{{.Next.Next}}", "{{.Zero}}",
	// What fails.
	"{{.Nothing}}", "{{.Zero.Name}}", "{{.unexported}}", "{{fails}}", "{{.Next.Fails}}", "{{index .Tags 9}}", "{{template \"none\"}}", "{{byptr .Word}}", "{{join}}", "{{.Word 1}}", "{{lt .Word 1}}", "{{range .Word.X}}{{end}}", "{{call .Word}}", "{{.Next.Times 1}}", "{{range .Share}}{{end}}",
}

// TestAsTheStandardLibrary: what is rendered is, byte for byte, what the standard library renders,
// and what fails there fails here.
func TestAsTheStandardLibrary(t *testing.T) {
	both := Funcs{}
	for _, f := range []Funcs{funcs, methods} {
		for name, fn := range f {
			both[name] = fn
		}
	}
	for _, source := range templates {
		compare := func(kind string, set *Set, standard func(*bytes.Buffer) error) {
			var want bytes.Buffer
			wantErr := standard(&want)
			err := set.Parse("x", source)
			got := []byte(nil)
			if err == nil {
				got, err = set.Render("x", sample())
			}
			if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s of %s: %q, %v; the standard library has %q, %v", kind, source, got, err, &want, wantErr)
			}
		}
		compare("text", Text("{{", "}}", both), func(b *bytes.Buffer) error {
			x, err := texttemplate.New("x").Funcs(texttemplate.FuncMap(funcs)).Parse(source)
			if err != nil {
				return err
			}
			return x.Execute(b, sample())
		})
		compare("HTML", HTML(both), func(b *bytes.Buffer) error {
			x, err := htmltemplate.New("x").Funcs(htmltemplate.FuncMap(funcs)).Parse(source)
			if err != nil {
				return err
			}
			return x.Execute(b, sample())
		})
	}
}

func TestSet(t *testing.T) {
	s := Text("<<", ">>", nil).Must("a", `<<.>>{{.}}<<template "b" .>>`).Must("b", "b<<.>>")
	if got, err := s.Render("a", "x"); err != nil || string(got) != "x{{.}}bx" || !s.Has("b") || s.Has("c") {
		t.Errorf("%s, %v", got, err)
	}
	if s.Must("b", " "); s.trees["b"] == nil || !strings.Contains(s.trees["b"].Root.String(), "b") {
		t.Error("an empty template replaced one that is not")
	}
	if got, err := HTML(nil).Must("a", "{{.A}}{{.B}}").Render("a", struct {
		A Raw
		B string
	}{"<b>", "<i>"}); err != nil || string(got) != "<b>&lt;i&gt;" {
		t.Errorf("%s, %v", got, err)
	}
	if err := s.Parse("d", "<<if>>"); err == nil {
		t.Error("a broken template was taken")
	}
	if _, err := Text("{{", "}}", nil).Must("a", "{{range .}}{{break}}{{end}}").Render("a", []int{1}); err == nil || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("break: %v", err)
	}
}
