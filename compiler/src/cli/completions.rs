//! `energyc completions`: what a shell needs to complete arguments.

use clap::CommandFactory;
use clap_complete::Shell;

use super::outcome::Outcome;

/// Print completions for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyc completions bash > ~/.local/share/bash-completion/completions/energyc\n  \
    energyc completions zsh > ~/.zfunc/_energyc\n  \
    energyc completions fish > ~/.config/fish/completions/energyc.fish")]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    let mut command = super::Args::command();
    clap_complete::generate(args.shell, &mut command, "energyc", &mut script);
    Outcome::good(String::from_utf8_lossy(&script).into_owned())
}
