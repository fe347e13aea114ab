package command

import (
	"fmt"
	"os"

	"penstock/proxy/build"
	"penstock/proxy/operate/openapi"
)

// OpenAPI prints the API description.
type OpenAPI struct {
	Format string `enum:"yaml,json" default:"yaml" help:"Form of the document: ${enum}, the same in both."`
}

// Run prints the embedded document.
func (o *OpenAPI) Run() error {
	text := openapi.YAML()
	if o.Format == formatJSON {
		text = openapi.JSON()
	}
	_, err := os.Stdout.Write(text)
	return err
}

// Version prints the version and build information.
type Version struct {
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: version, revision, go and platform."`
}

// Run prints the version and build information.
func (v *Version) Run() error {
	if v.Format == formatJSON {
		return printJSON(build.Describe())
	}
	fmt.Println("penstock", build.VersionLine())
	return nil
}
