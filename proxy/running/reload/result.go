package reload

import "time"

// The triggers of a reload, as logged. SourceAddresses applies the same file again after the
// resolved addresses of upstreams have changed. SourceModels does so after upstreams have listed
// other models. SourceRequest is an operator's request, which waits for the result.
const (
	SourceAddresses = "addresses"
	SourceModels    = "models"
	SourceRequest   = "request"
	sourceFile      = "file"
	sourceSignal    = "SIGHUP"
)

// Request configures a reload. A changed file and SIGHUP set only the source.
type Request struct {
	Source string // for the log: file, SIGHUP, request
	Force  bool   // apply even if a serving model loses all slots
	DryRun bool   // report the changes without applying them
	// Candidate is the text of another file, for a dry run. Nil means the file with which the edge
	// was started.
	Candidate []byte
	// Called is the candidate's name in problems. If it is empty, problems name the place that the
	// candidate is read from.
	Called string
	// Back applies, instead of the file, the configuration before the running one, except for its
	// keys.
	Back bool

	onRead func() // called before the files are read or the addresses are checked; may be nil
}

// Result describes what one reload did. It contains setting names and problems in the file, but no
// secrets.
type Result struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Forced    bool      `json:"forced,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"` // the file equals the running configuration
	// KeysInForce means that the file was refused and only its keys came into force, or would come
	// into force after a dry run. If KeysInForce is false, no setting of a refused file came into
	// force, or its keys are unchanged.
	KeysInForce bool `json:"keys_in_force,omitempty"`
	// version of the running configuration after the reload
	Version uint64 `json:"version"`
	// if the file is unchanged: when it came into force
	Since    time.Time        `json:"since,omitzero"`
	Changes  []string         `json:"changes,omitempty"`
	Capacity []CapacityChange `json:"capacity,omitempty"` // models whose slots or upstreams change
	Restart  []string         `json:"needs_restart,omitempty"`
	Problems []string         `json:"problems,omitempty"`
	// warnings about the file, which was read nevertheless
	Warnings []string `json:"warnings,omitempty"`
	Seconds  float64  `json:"seconds"`
}
