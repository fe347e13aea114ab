package command

import (
	"fmt"
	"os"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/plaintext"
	"penstock/proxy/reload"
	"penstock/upstreams/engine"
)

// Check validates configuration files.
type Check struct {
	Files   []string `arg:"" optional:"" name:"file" help:"Configuration files."`
	Against string   `placeholder:"OLD" help:"Also print what replacing the configuration OLD by the file would change: settings, and each model's slots."`
	Example bool     `help:"Print a complete, commented configuration instead."`
	Schema  bool     `help:"Print the JSON Schema of the configuration, for editors, instead."`
}

// Run prints the verdict on each file.
func (c *Check) Run() error {
	switch {
	case c.Example:
		_, err := os.Stdout.Write(config.Example())
		return err
	case c.Schema:
		_, err := os.Stdout.Write(config.Schema())
		return err
	case len(c.Files) == 0:
		return usageError("check: name at least one file")
	}
	var all config.Problems
	for _, name := range c.Files {
		f, problems := proxy.Load(name)
		if f == nil {
			all = append(all, problems...)
			continue
		}
		for _, p := range problems {
			fmt.Println(plaintext.Text(p.String()))
		}
		fmt.Printf("%s: ok\n", name)
		if c.Against != "" {
			if err := c.compare(f); err != nil {
				return err
			}
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// compare prints what next changes in the configuration that --against names.
func (c *Check) compare(next *config.File) error {
	old, problems := config.LoadValid(c.Against, engine.Known())
	if old == nil {
		return problems
	}
	if exposed := next.CheckOpen(old.Listen, old.Admin.Listen).Err(); exposed != nil {
		return exposed // as the edge that runs with old would
	}
	return reload.WriteDiff(os.Stdout, old, next)
}
