package proxy

import (
	_ "embed" // embeds troubleshooting.md
	"hash/fnv"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/proxy/operate/openapi"
	"penstock/proxy/operate/status"
	"penstock/proxy/request/endpoint"
)

// troubleshooting is the operators' troubleshooting document, organized by symptom and by alert.
//
//go:embed troubleshooting.md
var troubleshooting string

// apiDocumentFile is the API's description in one format. All clients may read it without a credential.
type apiDocumentFile struct {
	path, contentType, etag string
	body                    []byte
}

var apiDocuments = [...]apiDocumentFile{
	newAPIDocument("/openapi.json", "application/json", openapi.JSON()),
	newAPIDocument("/openapi.yaml", "application/yaml", openapi.YAML()), // RFC 9512
}

func newAPIDocument(path, contentType string, body []byte) apiDocumentFile {
	sum := fnv.New64a()
	_, _ = sum.Write(body)
	return apiDocumentFile{path, contentType, `"` + strconv.FormatUint(sum.Sum64(), 16) + `"`, body}
}

// serve serves the document. Clients may cache it for an hour, because it changes only with a new
// build.
func (d *apiDocumentFile) serve(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	endpoint.SetCommonHeaders(h, endpoint.AppendNewRequestID(nil))
	h.Set("Cache-Control", "public, max-age=3600")
	respondWithETag(ctx, d.contentType, d.etag, d.body)
}

// AlertInstructions maps the names of the alerts in .deploy/alerts.yaml to instructions for the
// operator.
func AlertInstructions() map[string]string { return status.AlertInstructions(troubleshooting) }
