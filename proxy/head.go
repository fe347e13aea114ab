package proxy

import (
	"penstock/proxy/httpserver"
	"penstock/translate/apierr"
)

func badHead(message string) *apierr.Error {
	return apierr.New(400, codeBadRequest, "%s", message)
}

// codeBadRequest is the code of a request that is wrong as HTTP.
const codeBadRequest = "bad_request"

func httpVersion(message string) *apierr.Error { return httpserver.HTTPVersion(message) }
