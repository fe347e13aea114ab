package command

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/running/reload"
	"penstock/upstreams/engine"
)

// Check validates configuration files.
type Check struct {
	Files   []string `arg:"" values:"files" optional:"" name:"file" help:"Configuration files; - is standard input, as if it were in this folder."`
	Against string   `placeholder:"OLD" help:"Also print what replacing the configuration OLD by the file would change: settings, and each model's slots."`
	Format  string   `enum:"text,json,github" default:"text" help:"Form of the problems: ${enum}. json is an array of file, line, column, level (error, warning), setting and message; github marks their lines in a pull request."`
	Example bool     `help:"Print a complete, commented configuration instead."`
	Schema  bool     `help:"Print the JSON Schema of the configuration, for editors, instead."`
}

const stdinName = "(standard input)"

// Run prints the result for each file, and prints where upstreams discover their engines.
func (c *Check) Run() error {
	switch {
	case c.Example:
		_, err := os.Stdout.Write(config.Example())
		return err
	case c.Schema:
		_, err := os.Stdout.Write(config.Schema())
		return err
	case len(c.Files) == 0:
		return usageError("check: name at least one file, or - for standard input")
	case c.Against != "" && c.Format != "text":
		return usageError("check: --against prints text")
	}
	var all, refused config.Problems
	for _, name := range c.Files {
		f, problems, err := loadConfig(&name)
		if err != nil {
			return err
		}
		all = append(all, problems...)
		if f == nil {
			refused = append(refused, problems...)
		}
		if c.Format != "text" || f == nil {
			continue
		}
		for _, p := range problems {
			fmt.Println(plaintext.CleanText(p.String()))
		}
		fmt.Printf("%s: ok\n", name)
		for i := range f.Upstreams {
			if u := &f.Upstreams[i]; u.DescribeDiscovery() != "" {
				fmt.Println(plaintext.CleanText(fmt.Sprintf("upstream %s: its engines are %s", u.Name, u.DescribeDiscovery())))
			}
		}
		for _, t := range config.UpstreamTags(f) {
			fmt.Println(plaintext.CleanText(fmt.Sprintf("tag %s: %s", t.Tag, strings.Join(t.Upstreams, ", "))))
		}
		for i := range f.Hooks {
			if h := &f.Hooks[i]; h.DescribePrompts() != "" {
				fmt.Println(plaintext.CleanText(fmt.Sprintf("hook %s: receives %s", h.Name, h.DescribePrompts())))
			} else if h.DescribeCopies() != "" {
				fmt.Println(plaintext.CleanText(fmt.Sprintf("hook %s: copies %s", h.Name, h.DescribeCopies())))
			}
		}
		if c.Against != "" {
			if err := c.compareWithFile(f); err != nil {
				return err
			}
		}
	}
	switch {
	case c.Format != "text":
		if err := c.writeFindings(os.Stdout, all); err != nil || len(refused) == 0 {
			return err
		}
		return reportedError{}
	case len(refused) > 0:
		return refused
	}
	return nil
}

// loadConfig reads a file, or standard input if *name is "-". For standard input, it changes *name
// to the name that reports of problems use. If the configuration is invalid, the returned file is
// nil.
func loadConfig(name *string) (*config.File, config.Problems, error) {
	if *name != "-" {
		f, problems := proxy.LoadConfig(*name)
		return f, problems, nil
	}
	*name = stdinName
	src, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, nil, err
	}
	f, problems := proxy.ParseConfig(stdinName, src)
	return f, problems, nil
}

type checkFinding struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Level   string `json:"level"` // error or warning
	Setting string `json:"setting,omitempty"`
	Message string `json:"message"`
}

func (c *Check) writeFindings(w io.Writer, problems config.Problems) error {
	out := make([]checkFinding, len(problems))
	for i, p := range problems {
		level := "error"
		if p.Warning {
			level = "warning"
		}
		out[i] = checkFinding{p.File, p.Line, p.Column, level, p.Path, p.Message}
	}
	if c.Format == formatJSON {
		return writeJSON(w, out)
	}
	for _, f := range out {
		place := ""
		for _, part := range []struct{ name, value string }{
			{"file", f.File}, {"line", strconv.Itoa(f.Line)}, {"col", strconv.Itoa(f.Column)},
		} {
			if part.value != "" && part.value != "0" {
				place += "," + part.name + "=" + githubPropertyEscaper.Replace(part.value)
			}
		}
		text := f.Message
		if f.Setting != "" {
			text += " (" + f.Setting + ")"
		}
		place = strings.TrimPrefix(place, ",")
		if _, err := fmt.Fprintf(w, "::%s %s::%s\n", f.Level, place, githubTextEscaper.Replace(text)); err != nil {
			return err
		}
	}
	return nil
}

// githubTextEscaper and githubPropertyEscaper escape characters for GitHub's workflow commands.
var (
	githubTextEscaper     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubPropertyEscaper = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// reportedError ends a command with exit code 1 after its problems have been printed.
type reportedError struct{}

func (reportedError) Error() string { return "" }

func (c *Check) compareWithFile(next *config.File) error {
	old, problems := config.LoadValid(c.Against, engine.KnownEngines())
	if old == nil {
		return problems
	}
	if exposed := next.CheckAlreadyOpenPorts(old.Listen, old.Admin.Listen).Err(); exposed != nil {
		return exposed // an edge running with the old file would reject the new one
	}
	return reload.WriteDiff(os.Stdout, old, next)
}
