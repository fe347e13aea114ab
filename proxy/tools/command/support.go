package command

import (
	"cmp"
	"os"
	"time"

	"penstock/proxy/operate/admin"
	"penstock/proxy/operate/support"
)

// Support writes the bundle for a bug report.
type Support struct {
	Config string `short:"c" placeholder:"FILE" env:"PENSTOCK_CONFIG" help:"Configuration of the edge. It may be invalid: what 'check' says of it is part of the bundle."`
	Output string `short:"o" placeholder:"FILE" help:"File to write, which must not exist (default: penstock-support-TIME.tar.gz)."`
	Admin  string `placeholder:"URL" env:"PENSTOCK_ADMIN" help:"Admin listener of the edge (default: admin.listen of the configuration). Without a running edge the bundle says what is missing."`
	Token  string `placeholder:"TOKEN" env:"PENSTOCK_ADMIN_TOKEN" help:"Its admin token (default: that of the configuration). Other users of the machine can see arguments, but not the variable."`
	CACert string `name:"cacert" placeholder:"FILE" env:"PENSTOCK_ADMIN_CACERT" help:"Certificates that signed the listener's, if it speaks TLS (default: admin.tls.cert of the configuration)."`
}

// Help is printed below the flags.
func (s *Support) Help() string {
	return `The bundle (.tar.gz, mode 0600) has version, system, the configuration without secrets and comments, what check says of it, and of a running
edge its state, last events, metrics, limits, goroutines and heap. It has no prompt, answer, key, token, password or file of a certificate. What is inside is
listed, so that you can look before you send it. The log is not part of it: add the lines around the trouble.`
}

// Run writes the bundle and lists its contents.
func (s *Support) Run() error {
	now := time.Now()
	return support.WriteBundle(&support.Options{
		Config: s.Config, Edge: admin.Edge{Admin: s.Admin, Token: s.Token, CACert: s.CACert}, Now: now, Environ: os.Environ(),
		Output: cmp.Or(s.Output, "penstock-support-"+now.Format("20060102-150405")+".tar.gz"),
	}, os.Stdout)
}
