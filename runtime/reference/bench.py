

# PyTorch's side of `energyrun bench train`: one contender, timed on request. `gpt.py` stands above.
#
# Arguments: mode (eager, compile), recipe, batch, window, threads, then layers, heads, head, vocabulary, dropout. It
# prints `ready`, then for every line on standard input the milliseconds of one training step and its peak memory in KiB.
import resource
import sys
import time

mode, recipe, *numbers = sys.argv[1:]
batch, window, threads, layers, heads, head, vocabulary = map(int, numbers[:7])
torch.set_num_threads(threads)
torch.manual_seed(0)
model = GPT(layers, heads, head, window, vocabulary, float(numbers[7]), recipe)
optimizer = torch.optim.AdamW(model.groups(0.01), lr=1e-4, fused=True)
tokens = torch.randint(vocabulary, (batch, window))
targets = torch.randint(vocabulary, (batch, window))
loss = torch.compile(model.loss) if mode == "compile" else model.loss


def step():
    loss(tokens, targets).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


for _ in range(3 if mode == "compile" else 2):
    step()
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    step()
    ms = (time.perf_counter() - start) * 1e3
    print(ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
