package reload

import "time"

// These are the sources of a reload, as logged. Reloads for SourceAddresses and SourceModels apply
// the running file again, because the addresses of upstreams have changed or upstreams have listed
// different models. SourceRequest is an operator's request.
const (
	SourceAddresses = "addresses"
	SourceModels    = "models"
	SourceRequest   = "request"
	sourceFile      = "file"
	sourceSignal    = "SIGHUP"
)

// Request configures a reload. A changed file and SIGHUP set only Source.
type Request struct {
	Source string
	Force  bool // apply the file even if a model loses all slots
	DryRun bool // report the changes without applying them
	// Candidate is the text of a file to use for a dry run; nil: the edge's file.
	Candidate []byte
	// Called is the name of the candidate in problems; "": the place from which it was read.
	Called string
	// Back makes the reload apply the previous configuration, without its keys, instead of the
	// file.
	Back bool

	onRead func() // called before the files are read or the addresses are checked; may be nil
}

// Result describes a reload. It contains no secrets.
type Result struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Forced    bool      `json:"forced,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"`
	// KeysInForce is true if the file was refused but its keys were applied or, for a dry run,
	// would be applied. It is false if the keys are unchanged.
	KeysInForce bool   `json:"keys_in_force,omitempty"`
	Version     uint64 `json:"version"`
	// Since is when the running configuration was applied. It is set only if Unchanged is true.
	Since    time.Time        `json:"since,omitzero"`
	Changes  []string         `json:"changes,omitempty"`
	Capacity []CapacityChange `json:"capacity,omitempty"` // models whose slots or upstreams change
	Restart  []string         `json:"needs_restart,omitempty"`
	Problems []string         `json:"problems,omitempty"`
	// Warnings contains the warnings about a file that was applied.
	Warnings []string `json:"warnings,omitempty"`
	Seconds  float64  `json:"seconds"`
}
