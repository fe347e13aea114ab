package command

import (
	"fmt"
	"os"

	"penstock/proxy/build"
	"penstock/proxy/operate/openapi"
)

// OpenAPI prints the API's description.
type OpenAPI struct {
	Format string `enum:"yaml,json" default:"yaml" help:"Form of the document: ${enum}."`
}

// Run prints the embedded document.
func (o *OpenAPI) Run() error {
	text := openapi.YAML()
	if o.Format == "json" {
		text = openapi.JSON()
	}
	_, err := os.Stdout.Write(text)
	return err
}

// Version prints the version and build.
type Version struct{}

// Run prints the version and build.
func (Version) Run() error {
	fmt.Println("penstock", build.Line())
	return nil
}
