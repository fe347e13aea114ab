package reload

import "time"

// These are the sources of reloads in the log. Reloads for SourceUpstreamAddresses and
// SourceUpstreamModels apply the running file again, because upstreams have new addresses or list
// different models. SourceRequest is a request by an operator.
const (
	SourceUpstreamAddresses = "addresses"
	SourceUpstreamModels    = "models"
	SourceRequest           = "request"
	sourceFile              = "file"
	sourceSignal            = "SIGHUP"
)

// Request configures a reload. A changed file and SIGHUP set only Source.
type Request struct {
	Source string
	Force  bool // whether to apply the file even if a model loses all slots
	DryRun bool // whether to report the changes without applying them
	// Candidate is the text used instead of the configuration file in a dry run. If nil, the
	// configuration file is used.
	Candidate []byte
	// Called is the name of the candidate in problems. If empty, the path or source from which the
	// candidate was read is used.
	Called string
	// Back makes the reload apply the previous configuration instead of the file, without the
	// previous keys.
	Back bool

	// Called before the files are read or the addresses are checked; may be nil.
	onRead func()
}

// Result describes a reload. It contains no secrets.
type Result struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Forced    bool      `json:"forced,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"`
	// KeysInForce is true if the file was rejected but its keys were applied. For a dry run, it is
	// true if they would be applied. It is false if the keys did not change.
	KeysInForce bool   `json:"keys_in_force,omitempty"`
	Version     uint64 `json:"version"`
	// Since is when the running configuration was applied. It is set only if Unchanged is true.
	Since    time.Time        `json:"since,omitzero"`
	Changes  []string         `json:"changes,omitempty"`
	Capacity []CapacityChange `json:"capacity,omitempty"` // models whose slots or upstreams change
	Restart  []string         `json:"needs_restart,omitempty"`
	Problems []string         `json:"problems,omitempty"`
	// Warnings contains the warnings about an applied file.
	Warnings []string `json:"warnings,omitempty"`
	Seconds  float64  `json:"seconds"`
}
