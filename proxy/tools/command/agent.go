package command

import (
	"context"
	"os"
	"time"

	"penstock/proxy/tools/agent"
)

// Agent configures a coding agent.
type Agent struct {
	Name   string `arg:"" name:"agent" enum:"${agents}" help:"The agent: ${enum}."`
	URL    string `name:"url" default:"http://127.0.0.1:4000" placeholder:"URL" help:"Address of the edge's API (default: ${default})."`
	Model  string `short:"m" values:"models" placeholder:"ID" help:"Model to work with, by its id or an alias; without it the first ready one that the agent can use."`
	KeyEnv string `name:"key-env" default:"PENSTOCK_API_KEY" placeholder:"NAME" help:"Environment variable that holds the API key (default: ${default}). Files name it; the key itself is in none."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: model, files with path and text, and run, the command line."`
	Write  bool   `help:"Write the files, after showing what changes. A file that differs is kept beside the new one."`
}

// Help is printed below the flags.
func (a *Agent) Help() string {
	return `The files are made from the edge's catalog: the context of the models, their longest answers, efforts and images. They stand beside the agent's
own configuration, which is not touched: the command line printed at the end names them to the agent. Run it again when models change.`
}

// Run prints or writes the files.
func (a *Agent) Run() error {
	// The value is not printed, because it may be a key.
	if !agent.IsVariableName(a.KeyEnv, os.Environ()) {
		return usageError("agent: --key-env is the name of the environment variable that holds the key, not the key")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	// A signal can end the process at any time without harm, because files are written atomically.
	return agent.ConfigureAgent(context.Background(), &agent.Options{
		Name: a.Name, URL: a.URL, Model: a.Model, KeyEnv: a.KeyEnv, Write: a.Write, JSON: a.Format == formatJSON,
		Out: os.Stdout, Notes: os.Stderr, Getenv: os.Getenv, Home: home, Now: time.Now(),
	})
}
