package proxy

import (
	"penstock/translate/apierr"
)

// dialect is how an endpoint speaks: the shape of its errors and what its contract calls an engine's failure.
type dialect struct {
	name string // the metrics' and log's word
	// appendError renders e for a client of this dialect.
	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError says an upstream's failure in this dialect's statuses; nil: as it is.
	mapError func(e *apierr.Error) *apierr.Error
}

// errorOf returns e as this dialect's clients see it.
func (d *dialect) errorOf(e *apierr.Error) *apierr.Error {
	if d.mapError == nil {
		return e
	}
	return d.mapError(e)
}

func chatError(dst []byte, e *apierr.Error, _ string) []byte { return e.Append(dst) }

// dialectChat is also the shape of errors that belong to no endpoint: a head that did not parse, an unknown path.
var dialectChat = &dialect{name: "chat", appendError: chatError}

var dialectModels = &dialect{name: "models", appendError: chatError}

// dialectNone marks answers outside of any endpoint in the record.
var dialectNone = &dialect{name: "none", appendError: chatError}
