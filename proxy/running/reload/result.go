package reload

import "time"

// What may trigger a reload, as logged. SourceAddresses applies the same file again after the
// resolved addresses of upstreams have changed, and SourceModels does so after upstreams have
// listed other models. SourceRequest is an operator's request, which waits for the result.
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
	DryRun bool   // only report what would change
	// Candidate is the text of another file, for a dry run. Nil means the file with which the edge
	// was started.
	Candidate []byte
	// Called is the candidate's name in problems. If it is empty, problems name the place from
	// which the candidate is read.
	Called string
	// Back applies, instead of the file, the configuration before the running one, except for its
	// keys.
	Back bool

	onRead func() // called before the files are read or the addresses are checked; may be nil
}

// Result says what one reload did. It holds setting names and problems in the file, but no secrets.
type Result struct {
	At        time.Time `json:"at"`
	Source    string    `json:"source"`
	OK        bool      `json:"ok"`
	DryRun    bool      `json:"dry_run,omitempty"`
	Forced    bool      `json:"forced,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"` // the file equals the running one
	// KeysInForce means that the file was refused and only its keys came into force or, for a dry
	// run, would. If KeysInForce is false, nothing of a refused file came into force, or the keys
	// did not change.
	KeysInForce bool             `json:"keys_in_force,omitempty"`
	Version     uint64           `json:"version"`        // of the running configuration after the reload
	Since       time.Time        `json:"since,omitzero"` // of an unchanged file: when it came into force
	Changes     []string         `json:"changes,omitempty"`
	Capacity    []CapacityChange `json:"capacity,omitempty"` // models whose slots or upstreams change
	Restart     []string         `json:"needs_restart,omitempty"`
	Problems    []string         `json:"problems,omitempty"`
	Warnings    []string         `json:"warnings,omitempty"` // about the file, which was read nevertheless
	Seconds     float64          `json:"seconds"`
}
