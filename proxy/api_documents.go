package proxy

import (
	_ "embed" // for the document below
	"hash/fnv"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/proxy/operate/openapi"
	"penstock/proxy/operate/status"
	"penstock/proxy/request/endpoint"
)

// troubleshooting is the operator's runbook, by symptom and by alert.
//
//go:embed troubleshooting.md
var troubleshooting string

// document is one form of the API's description. Every client gets it, with any credential or none.
type document struct {
	path, contentType, etag string
	body                    []byte
}

var documents = [...]document{
	newDocument("/openapi.json", "application/json", openapi.JSON()),
	newDocument("/openapi.yaml", "application/yaml", openapi.YAML()), // RFC 9512
}

func newDocument(path, contentType string, body []byte) document {
	sum := fnv.New64a()
	_, _ = sum.Write(body)
	return document{path, contentType, `"` + strconv.FormatUint(sum.Sum64(), 16) + `"`, body}
}

// serve answers GET and HEAD. The bytes change only with the build, so clients may cache them for
// an hour.
func (d *document) serve(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	endpoint.CommonHeaders(h, endpoint.AppendRequestID(nil))
	h.Set("Cache-Control", "public, max-age=3600")
	respondCached(ctx, d.contentType, d.etag, d.body)
}

// Alerts returns what to do when an alert of .deploy/alerts.yaml fires, by its name, as plain text.
func Alerts() map[string]string { return status.AlertTexts(troubleshooting) }
