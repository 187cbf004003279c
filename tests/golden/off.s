golden_call:
    lea rax,[rdi+0x1]
    ret
golden_fire:
    lea rax,[rdi+0x2]
    ret
