package overhead

import "time"

// Cmd is the command `penstock bench overhead`.
type Cmd struct {
	Rounds   int           `default:"3" help:"Rounds; every target has its turn in each. The report has medians."`
	Duration time.Duration `default:"3s" help:"Time of one measurement of requests or latency."`
	Rate     float64       `default:"1000" help:"Requests per second when latency is measured; half as many when short streams are."`
	HalfRate float64       `default:"8000" help:"Requests per second of the test half: about half of what saturates a proxy."`
	Streams  int           `default:"100" help:"Streams side by side when tokens are measured."`
	Hold     int           `default:"500" help:"Streams, or idle connections, held open when memory is measured."`
	Tests    []string      `default:"saturated,half,light,request,prompt,image,latency,token,messages,responses,short,memory,tls,connection,idle,reload,reloading" help:"What is measured, of the rows that the default names."`
	Beside   []string      `default:"nginx,haproxy" help:"Proxies to measure beside the edge, where they are installed."`
	NoPin    bool          `help:"Let the system choose processors. Without it each proxy has one to itself, and client and engine the others."`
	Format   string        `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: environment, targets, doubts, and tests with the numbers of every round."`
	Output   string        `short:"o" placeholder:"FILE" help:"Write there instead of to the screen."`
}
