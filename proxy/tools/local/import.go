package local

import (
	"fmt"
	"io"
	"os"

	"penstock/config"
	"penstock/config/strictyaml"
	"penstock/proxy/tools/migrate"
	"penstock/upstreams/engine"
)

// ImportConfig converts another program's configuration, writes the result, and prints notes about
// settings that have no counterpart. It does not overwrite an existing file.
func ImportConfig(from string, to ConfigDestination) error {
	if err := to.checkWritable(); err != nil {
		return err
	}
	src, err := readSource(&from)
	if err != nil {
		return err
	}
	made, err := migrate.Convert(src, os.LookupEnv)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	unset, end, err := setPlaceholders(made.Variables)
	defer end()
	if err != nil {
		return err
	}
	f, problems := config.ParseValid(to.File, made.Text, engine.KnownEngines())
	if f == nil {
		return fmt.Errorf("the conversion of %s is not a valid configuration: %w", from, problems)
	}
	if err := to.writeConfig(made.Text); err != nil {
		return err
	}
	fmt.Fprintf(to.Notes, "From      a configuration of %s\n", made.Program)
	for _, note := range made.Notes {
		fmt.Fprintf(to.Notes, "Note      %s\n", note)
	}
	for _, name := range unset {
		fmt.Fprintf(to.Notes, "Set       %s, which the configuration names and which is not set here\n", name)
	}
	to.printSummary(to.notesWriter(), f, made.NewKey)
	return nil
}

// readSource reads a file, or standard input if *from is "-". For standard input, it changes *from
// to the name that error messages use.
func readSource(from *string) ([]byte, error) {
	const most = 4 << 20
	if *from != "-" {
		return strictyaml.ReadRegular(*from, most)
	}
	*from = "standard input"
	src, err := io.ReadAll(io.LimitReader(os.Stdin, most+1))
	if err == nil && len(src) > most {
		err = fmt.Errorf("%s is larger than %d MiB", *from, most>>20)
	}
	return src, err
}

// setPlaceholders sets each unset environment variable in names to a placeholder until end is
// called. A configuration that refers to these variables can then be read. It returns the names of
// the variables that were unset.
func setPlaceholders(names []string) (unset []string, end func(), err error) {
	end = func() {
		for _, name := range unset {
			_ = os.Unsetenv(name)
		}
	}
	for _, name := range names {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, "http://unset.invalid"); err != nil {
			return unset, end, err
		}
		unset = append(unset, name)
	}
	return unset, end, nil
}
