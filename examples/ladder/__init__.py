"""An article's ladder of optimizations, climbed on the machine at hand: an example on the advisor's public API.

Chaim Rand trained a ResNet-18 on fake CIFAR-10 and made it eight times as fast in seven changes, each read off a profile.
Here the same program runs state by state, each in a process of its own: measured without the profiler, recorded with it,
and analyzed. The table says which advice led to each change, what was predicted of it, and what it became.

``states`` lists the changes; ``train`` is the program, a script that is copied into the output folder and run there;
``machine`` describes the device; ``running`` starts the processes; ``table`` holds the figures; ``text`` and ``html`` show
them. ``advisor ladder`` is the command.
"""
